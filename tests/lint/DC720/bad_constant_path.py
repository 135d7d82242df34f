import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = DistributedDataParallel(torch.nn.Linear(8, 8).cuda(), device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(100):
        optimizer.zero_grad()
        model(torch.randn(4, 8, device="cuda")).sum().backward()
        optimizer.step()
    torch.save(model.module.state_dict(), "model.pt")  # expect: DC720=warning
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
