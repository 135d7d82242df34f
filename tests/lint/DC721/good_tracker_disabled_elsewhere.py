import os

import torch
import torch.distributed as dist
import wandb


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    is_first = dist.get_rank() == 0
    wandb.init(project="digits", mode="online" if is_first else "disabled")
    value = torch.ones(1, device="cuda")
    dist.all_reduce(value)
    wandb.log({"value": value.item()})
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
