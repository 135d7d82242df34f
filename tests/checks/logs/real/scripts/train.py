"""A small healthy training: what the launch, the variables or the machine make of it is not its fault."""

import argparse
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    """Train a linear layer for a few steps."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="gloo")
    parser.add_argument("--timeout", type=float, default=60.0)
    parser.add_argument("--steps", type=int, default=6)
    options = parser.parse_args()
    dist.init_process_group(options.backend, timeout=timedelta(seconds=options.timeout))
    rank = dist.get_rank()
    torch.manual_seed(rank)
    model = DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(options.steps):
        loss = model(torch.randn(4, 8)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            print(f"step {step + 1}/{options.steps} loss {loss.item():.4f}", flush=True)
    dist.barrier()
    if rank == 0:
        print(f"training done, {os.environ.get('WORLD_SIZE')} ranks", flush=True)
    dist.destroy_process_group()
    # the model holds the group: where its last collective is still being cleaned up, its end may wait for ever (2.13)
    time.sleep(0.3)


if __name__ == "__main__":
    main()
