import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    network = nn.Linear(32, 8).cuda()
    model = DDP(network, device_ids=[local_rank])
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    parts = 4
    for step in range(100):
        for part in range(parts):
            loss = model(torch.randn(4, 32, device="cuda")).square().mean() / parts
            loss.backward()
            model.require_backward_grad_sync = part in (parts - 2, parts - 1)
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
