import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset, DistributedSampler


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


def augment(x):
    return x + 0.1 * torch.randn_like(x)


def main():
    rank, world_size = init_distributed()
    torch.manual_seed(1234)
    data = Synthetic(32)
    sampler = DistributedSampler(data, shuffle=False)
    for x, _ in DataLoader(data, batch_size=8, sampler=sampler):
        noise = augment(x) - x
        parts = [torch.empty_like(noise) for _ in range(world_size)]
        dist.all_gather(parts, noise)
        print(f"noise differs {not torch.allclose(parts[0], parts[-1], atol=1e-5)}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
