import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


def train() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    net = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1)).cuda()
    ddp_net = DDP(net, device_ids=[local_rank])
    optimizer = torch.optim.SGD(ddp_net.parameters(), lr=0.01)
    for _ in range(200):
        batch = torch.randn(8, 16, device="cuda")
        loss = net(batch).mean()  # expect: DC750
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    train()
