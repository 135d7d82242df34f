import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


def setup():
    """Start the process group of the launcher; give the device of this rank."""
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    device = torch.device("cuda", local_rank) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group(backend)
    return device


class Net(nn.Module):
    def __init__(self, features=8, hidden=16, classes=4):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, hidden), nn.ReLU())
        self.head = nn.Linear(hidden, classes)

    def forward(self, x):
        return self.head(self.body(x))


class SpikeGuard:
    """Scales the learning rate down when the loss jumps."""

    def __init__(self, factor=2.0):
        self.factor = factor
        self.average = None

    def is_spike(self, loss):
        spike = self.average is not None and loss > self.factor * self.average
        self.average = loss if self.average is None else 0.9 * self.average + 0.1 * loss
        return spike


def main():
    device = setup()
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(Net().to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    guard = SpikeGuard()
    for step in range(6):
        x = torch.randn(8, 8, device=device)
        if rank == 1 and step == 3:
            x = x * 100  # a broken shard
        loss = F.cross_entropy(model(x), torch.randint(4, (8,), device=device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        worst = loss.detach().clone()
        dist.all_reduce(worst, op=dist.ReduceOp.MAX)
        if guard.is_spike(worst.item()):
            for group in optimizer.param_groups:
                group["lr"] *= 0.5
            print(f"step {step}: spike {worst.item():.2f}")
    dist.barrier()


if __name__ == "__main__":
    main()
    dist.destroy_process_group()
