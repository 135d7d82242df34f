import os

import torch
import torch.distributed as dist
import wandb
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.tensorboard import SummaryWriter


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    if rank == 0:
        wandb.init(project="digits")
    writer = SummaryWriter("runs") if rank == 0 else None
    model = DDP(torch.nn.Linear(8, 8).cuda(), device_ids=[local_rank])
    for step in range(100):
        loss = model(torch.randn(4, 8, device="cuda")).sum()
        loss.backward()
        if writer is not None:
            writer.add_scalar("loss", loss.item(), step)
            wandb.log({"loss": loss.item()})
            print(step, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
