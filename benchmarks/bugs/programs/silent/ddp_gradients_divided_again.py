import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def main():
    rank, world_size = init_distributed()
    layer = nn.Linear(1, 1, bias=False)
    nn.init.ones_(layer.weight)
    model = DDP(layer)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.tensor([[1.0], [3.0]]) if rank == 0 else torch.tensor([[2.0], [4.0]])
    model(x).mean().backward()
    for parameter in model.parameters():
        parameter.grad.div_(world_size)
    optimizer.step()
    print(f"rank {rank} weight {layer.weight.item():.4f}")


if __name__ == "__main__":
    main()
    dist.destroy_process_group()
