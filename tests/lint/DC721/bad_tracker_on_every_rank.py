import os

import torch
import torch.distributed as dist
import wandb
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    wandb.init(project="digits", config={"lr": 0.1})  # expect: DC721=warning
    model = DDP(torch.nn.Linear(8, 8).cuda(), device_ids=[local_rank])
    for _ in range(100):
        loss = model(torch.randn(4, 8, device="cuda")).sum()
        loss.backward()
        wandb.log({"loss": loss.item()})
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
