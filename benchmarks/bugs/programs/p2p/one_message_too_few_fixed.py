import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset


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
    data = Synthetic(length=20)
    loader = DataLoader(data, batch_size=8, drop_last=True)
    received = 0
    for x, _ in loader:
        if rank == 0:
            dist.send(x.mean(0), dst=1)
        else:
            summary = torch.empty(8)
            dist.recv(summary, src=0)
            received += 1
    dist.barrier()
    print(f"rank {rank}: {received} received")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
