import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def train(model, optimizer, local_rank, epochs=10):
    for epoch in range(epochs):
        for _ in range(50):
            loss = model(torch.randn(4, 8, device=local_rank)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        # the number of the epoch is the same on all ranks
        torch.save(model.module.state_dict(), f"checkpoints/epoch_{epoch}.pt")  # expect: DC720


if __name__ == "__main__":
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group(backend="nccl")
    net = DDP(torch.nn.Linear(8, 1).to(local_rank), device_ids=[local_rank])
    train(net, torch.optim.AdamW(net.parameters()), local_rank)
    dist.destroy_process_group()
