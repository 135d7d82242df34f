import math
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Sampler, TensorDataset


class Repeated(Sampler):
    def __init__(self, dataset, num_replicas, rank, repeats=3):
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.repeats = repeats
        self.passes = 0
        self.generator = torch.Generator().manual_seed(17)
        self.num_samples = math.ceil(len(dataset) * repeats / num_replicas)

    def __iter__(self):
        order = torch.randperm(len(self.dataset), generator=self.generator)
        order = torch.repeat_interleave(order, self.repeats).tolist()
        return iter(order[self.rank : self.num_samples * self.num_replicas : self.num_replicas])

    def __len__(self):
        return self.num_samples

    def set_epoch(self, epoch):
        self.passes = epoch


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    data = TensorDataset(torch.randn(1000, 8))
    sampler = Repeated(data, dist.get_world_size(), dist.get_rank())
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    model = DDP(torch.nn.Linear(8, 1).cuda())
    for epoch in range(10):
        for (batch,) in loader:
            model(batch.cuda()).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
