import os

import torch
import torch.distributed as dist
import wandb
from torch.utils.tensorboard import SummaryWriter


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    wandb.init(project="digits", group="ddp", name=f"rank-{rank}")
    writer = SummaryWriter(log_dir=os.path.join("runs", f"rank_{rank}"))
    value = torch.ones(1, device="cuda")
    dist.all_reduce(value)
    writer.add_scalar("value", value.item(), 0)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
