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


def broadcast_state(model):
    for name, tensor in sorted(model.state_dict().items()):
        dist.broadcast(tensor, src=0)


def main():
    rank, _ = init_distributed()
    classes = torch.tensor([3 if rank == 0 else 0])
    dist.broadcast(classes, src=0)
    model = Net(classes=int(classes))
    broadcast_state(model)
    x = torch.ones(2, 8)
    print(f"rank {rank}: {model(x).sum().item():.4f} classes {model(x).shape[1]}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
