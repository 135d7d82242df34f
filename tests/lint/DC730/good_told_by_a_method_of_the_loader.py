import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class EpochLoader:
    def __init__(self, data):
        self.sampler = DistributedSampler(data)
        self.loader = DataLoader(data, batch_size=8, sampler=self.sampler)
        self.epoch = 0

    def __iter__(self):
        self.sampler.set_epoch(self.epoch)
        self.epoch += 1
        return iter(self.loader)


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    loader = EpochLoader(TensorDataset(torch.randn(1000, 8)))
    model = DDP(torch.nn.Linear(8, 1).cuda(), device_ids=[local_rank])
    for _ in range(10):
        for (batch,) in loader:
            model(batch.cuda()).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
