"""An object walks through the loader, and moves each batch to the GPU."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class OnGpu:
    def __init__(self, data):
        self.data = data
        self.sampler = DistributedSampler(self.data)
        self.loader = DataLoader(self.data, batch_size=32, sampler=self.sampler)

    def __iter__(self):
        for (batch,) in self.loader:
            yield batch.cuda(non_blocking=True)


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    batches = OnGpu(TensorDataset(torch.randn(1000, 8)))
    model = DDP(torch.nn.Linear(8, 1).cuda(), device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(10):
        batches.sampler.set_epoch(epoch)
        for number, batch in enumerate(batches):
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
