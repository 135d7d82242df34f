"""A sampler gets the indices of this rank; another one is of torch, and draws as many as are needed."""
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Sampler, TensorDataset, WeightedRandomSampler


class Shuffled(Sampler):
    def __init__(self, indices):
        self.indices = list(indices)

    def __iter__(self):
        order = torch.randperm(len(self.indices)).tolist()
        return iter(self.indices[position] for position in order)

    def __len__(self):
        return len(self.indices)


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    data = TensorDataset(torch.randn(1024, 8))
    model = DDP(torch.nn.Linear(8, 1).cuda(), device_ids=[local_rank])
    own = Shuffled(range(dist.get_rank(), 1024, dist.get_world_size()))
    for (batch,) in DataLoader(data, batch_size=32, sampler=own):
        model(batch.cuda()).sum().backward()
    drawn = WeightedRandomSampler(torch.ones(1024), 1024 // dist.get_world_size())
    for (batch,) in DataLoader(data, batch_size=32, sampler=drawn):
        model(batch.cuda()).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
