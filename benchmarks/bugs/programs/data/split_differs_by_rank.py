import os

import torch
import torch.distributed as dist
from torch.utils.data import Dataset, DistributedSampler, random_split


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
    rank, world_size = init_distributed()
    torch.manual_seed(rank)
    data = Synthetic(60)
    training, validation = random_split(data, [40, 20])
    sampler = DistributedSampler(training)
    sampler.set_epoch(0)
    mine = {training.indices[i] for i in sampler}
    everyone = [None] * world_size
    dist.all_gather_object(everyone, (mine, set(validation.indices)))
    trained = set().union(*(part for part, _ in everyone))
    held_out = set().union(*(part for _, part in everyone))
    print(f"rank {rank} leaked {len(trained & held_out)}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
