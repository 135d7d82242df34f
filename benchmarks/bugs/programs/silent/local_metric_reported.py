import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Subset


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


class Synthetic(Dataset):
    """Samples that depend on their index only."""

    def __init__(self, length=64, features=8, classes=4):
        generator = torch.Generator().manual_seed(7)
        self.x = torch.randn(length, features, generator=generator)
        self.y = torch.randint(classes, (length,), generator=generator)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index], self.y[index]


def main():
    rank, _ = init_distributed()
    data = Subset(Synthetic(32), range(32))
    loader = DataLoader(data, batch_size=4, sampler=DistributedSampler(data, shuffle=False))
    right = torch.zeros(2)
    for x, y in loader:
        guess = y if rank == 0 else y + 1
        right += torch.tensor([(guess == y).sum().item(), len(y)])
    if rank == 0:
        print(f"accuracy {(right[0] / right[1]).item()}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
