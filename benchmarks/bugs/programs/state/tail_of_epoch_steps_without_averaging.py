import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

ACCUMULATE = 3


def train_epoch(ddp, optimizer, batches):
    count = len(batches)
    for index, inputs in enumerate(batches):
        full = (index + 1) % ACCUMULATE == 0
        last = index + 1 == count
        with contextlib.nullcontext() if full else ddp.no_sync():
            loss = (ddp(inputs) - inputs.sum(1, keepdim=True)).square().mean() / ACCUMULATE
            loss.backward()
        if full or last:
            optimizer.step()
            optimizer.zero_grad()
    return loss.item()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(3)
    ddp = DistributedDataParallel(nn.Sequential(nn.Linear(5, 10), nn.ReLU(), nn.Linear(10, 1)))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(500 + rank)
    for epoch in range(3):
        batches = [torch.randn(8, 5, generator=generator) for _ in range(5)]
        loss = train_epoch(ddp, optimizer, batches)
        if rank == 0:
            print(f"epoch {epoch} loss {loss:.4f}")
    del ddp
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
