import random

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def seed_everything(seed):
    random.seed(seed)
    torch.manual_seed(seed)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 10))

    def forward(self, latent):
        return self.layers(latent)


def distance(generated):
    """How far the generated points are from the unit sphere."""
    return (generated.norm(dim=1) - 1).square().mean()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    seed_everything(2024)
    ddp = DistributedDataParallel(Decoder())
    optimizer = torch.optim.Adam(ddp.parameters(), lr=1e-3)
    for step in range(5):
        latent = torch.randn(16, 6)
        loss = distance(ddp(latent))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            print(f"step {step} loss {loss.item():.4f}")
    del ddp
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
