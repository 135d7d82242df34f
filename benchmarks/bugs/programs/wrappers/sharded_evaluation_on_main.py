import os

import torch
import torch.distributed as dist
import torch.nn as nn


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


class Net(nn.Module):
    def __init__(self, features=8, hidden=16, classes=4):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, hidden), nn.ReLU())
        self.head = nn.Linear(hidden, classes)

    def forward(self, x):
        return self.head(self.body(x))
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


@torch.no_grad()
def sample(model, prompt, length):
    for _ in range(length):
        prompt = torch.cat([prompt[:, 1:], model(prompt).mean(-1, keepdim=True)], dim=1)
    return prompt


def main():
    rank, world_size = init_distributed()
    torch.manual_seed(0)
    model = Net()
    fully_shard(model, mesh=init_device_mesh("cpu", (world_size,)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    for epoch in range(2):
        loss = model(torch.randn(4, 8)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            print(sample(model, torch.randn(1, 8), length=3))
    dist.barrier()


if __name__ == "__main__":
    main()
    dist.destroy_process_group()
