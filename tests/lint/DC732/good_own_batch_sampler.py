import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Sampler, TensorDataset


class EveryNth(Sampler):
    def __init__(self, count, rank, world_size, batch_size):
        self.indices = range(rank, count, world_size)
        self.batch_size = batch_size

    def __iter__(self):
        for start in range(0, len(self.indices), self.batch_size):
            yield list(self.indices[start : start + self.batch_size])


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    data = TensorDataset(torch.randn(1024, 8))
    batches = EveryNth(1024, dist.get_rank(), dist.get_world_size(), 32)
    model = DDP(torch.nn.Linear(8, 1).cuda(), device_ids=[local_rank])
    for (batch,) in DataLoader(data, batch_sampler=batches):
        model(batch.cuda()).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
