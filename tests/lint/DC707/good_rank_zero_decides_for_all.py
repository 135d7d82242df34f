import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def train(batches: list, held_back: torch.Tensor, epochs: int) -> None:
    model = DDP(torch.nn.Linear(4, 1))
    for epoch in range(epochs):
        for batch in batches:
            model(batch).mean().backward()
        done = torch.zeros(1)
        if dist.get_rank() == 0:
            value = model.module(held_back).mean().item()
            if value < 1e-3:
                done.fill_(1)
            dist.broadcast(done, 0)
            if value < 1e-3:
                break
        else:
            dist.broadcast(done, 0)
            if done.item():
                break


def train_or_fail(batches: list, held_back: torch.Tensor, epochs: int) -> None:
    model = DDP(torch.nn.Linear(4, 1))
    for epoch in range(epochs):
        for batch in batches:
            model(batch).mean().backward()
        if dist.get_rank() == 0:
            value = model.module(held_back).mean().item()
            if value > 1e6:
                print("diverged", value)
                sys.exit(1)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    train([torch.rand(2, 4)], torch.rand(2, 4), 10)
    train_or_fail([torch.rand(2, 4)], torch.rand(2, 4), 10)
    dist.destroy_process_group()
