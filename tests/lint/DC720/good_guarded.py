import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = DDP(torch.nn.Linear(8, 8).cuda(), device_ids=[local_rank])
    for epoch in range(3):
        model(torch.randn(4, 8, device="cuda")).sum().backward()
        if dist.get_rank() == 0 and epoch % 2 == 0:
            torch.save(model.module.state_dict(), f"epoch_{epoch}.pt")
    if not dist.get_rank():
        torch.save(model.module.state_dict(), "model.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
