import os
import random

import torch
import torch.distributed as dist
import torch.nn as nn


def seed_everything(seed):
    random.seed(seed)
    torch.manual_seed(seed)


def build(features, classes):
    return nn.Sequential(nn.Linear(features, 12), nn.ReLU(), nn.Linear(12, classes))


def sync(model):
    world_size = dist.get_world_size()
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= world_size


def main():
    dist.init_process_group("gloo")
    rank = int(os.environ["RANK"])
    seed_everything(42 + rank)
    model = build(6, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    criterion = nn.CrossEntropyLoss()
    for _ in range(3):
        inputs, labels = torch.randn(4, 6), torch.randint(3, (4,))
        optimizer.zero_grad()
        criterion(model(inputs), labels).backward()
        sync(model)
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
