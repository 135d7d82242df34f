"""Whoever skips the rest of the step has done all that is shared."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def train(batches: list) -> None:
    dist.init_process_group("gloo")
    model = DDP(torch.nn.Linear(4, 1))
    for batch in batches:
        loss = model(batch).mean()
        loss.backward()
        if loss.item() > 10:
            continue
        print(loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    train([torch.rand(2, 4)])
