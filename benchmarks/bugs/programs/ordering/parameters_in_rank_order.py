import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


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


def average_gradients(model, world_size):
    named = [(name, p) for name, p in model.named_parameters() if p.grad is not None]
    named.sort(key=lambda item: item[1].grad.abs().mean().item())
    flat = {}
    for name, parameter in named:
        padded = torch.zeros(256)
        padded[: parameter.numel()] = parameter.grad.view(-1)
        dist.all_reduce(padded)
        flat[name] = padded / world_size
    for name, parameter in named:
        parameter.grad.copy_(flat[name][: parameter.numel()].view_as(parameter))


def main():
    rank, world_size = init_distributed()
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    torch.manual_seed(rank)
    for _ in range(6):
        x = torch.randn(4, 8) * (1 + 40 * rank)
        loss = F.cross_entropy(model(x), torch.randint(4, (4,)))
        optimizer.zero_grad()
        loss.backward()
        average_gradients(model, world_size)
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
