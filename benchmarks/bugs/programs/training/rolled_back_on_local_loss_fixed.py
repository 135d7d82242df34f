import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def validation_loss(model, rank, epoch):
    generator = torch.Generator().manual_seed(1000 * rank + epoch)
    inputs = torch.randn(8, 4, generator=generator)
    with torch.no_grad():
        loss = (model(inputs) - inputs.roll(1, 1)).square().mean()
    dist.all_reduce(loss, op=dist.ReduceOp.SUM)
    return loss.item() / dist.get_world_size()


def train_epoch(ddp, optimizer, generator):
    for _ in range(2):
        inputs = torch.randn(8, 4, generator=generator)
        loss = (ddp(inputs) - inputs.roll(1, 1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(4)
    model = nn.Linear(4, 4)
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.02)
    generator = torch.Generator().manual_seed(rank)
    best, weights = float("inf"), copy.deepcopy(model.state_dict())
    for epoch in range(6):
        train_epoch(ddp, optimizer, generator)
        loss = validation_loss(model, rank, epoch)
        if loss < best:
            best, weights = loss, copy.deepcopy(model.state_dict())
        else:
            model.load_state_dict(weights)
        print(f"rank {rank} epoch {epoch} validation {loss:.4f}")
    del ddp
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
