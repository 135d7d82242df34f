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


@torch.no_grad()
def evaluate(model, batches):
    model.eval()
    right = torch.zeros(2)
    for x, y in batches:
        right[0] += (model(x).argmax(-1) == y).sum()
        right[1] += len(y)
    dist.all_reduce(right)
    model.train()
    return (right[0] / right[1]).item()


def main():
    rank, _ = init_distributed()
    torch.manual_seed(0)
    model = Net()
    validation = [(torch.randn(4, 8), torch.randint(4, (4,))) for _ in range(3)]
    best = 0.0
    for _ in range(2):
        dist.broadcast(model.head.weight.data, src=0)
        accuracy = evaluate(model, validation) if rank == 0 else 0.0
        best = max(best, accuracy)
    if rank == 0:
        print(f"best {best:.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
