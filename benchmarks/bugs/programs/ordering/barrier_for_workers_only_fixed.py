import os
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn as nn
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


def fetch(path):
    torch.save(torch.randn(32, 8), path)


def main():
    device = setup()
    rank = dist.get_rank()
    path = Path("data.pt")
    if rank == 0:
        fetch(path)
    dist.barrier()
    data = torch.load(path, map_location="cpu").to(device)
    model = DDP(Net().to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for batch in data.split(8):
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"rank {rank}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
    dist.destroy_process_group()
