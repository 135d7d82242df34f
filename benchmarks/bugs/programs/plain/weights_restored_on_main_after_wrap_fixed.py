import copy

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


def run_epoch(model, optimizer, x, y):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    x, y = torch.randn(8, 3), torch.randn(8, 1)
    model = DDP(nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    best = copy.deepcopy(model.module.state_dict())
    for _ in range(2):
        run_epoch(model, optimizer, x, y)
    model.module.load_state_dict(best)
    if rank == 0:
        print("best weights restored, fine-tuning")
    for _ in range(2):
        run_epoch(model, optimizer, x, y)
    model = None
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
