import os

import torch
import torch.distributed as dist
import wandb


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    if dist.get_rank() != 0:
        os.environ["WANDB_MODE"] = "disabled"
    wandb.init(project="digits")
    value = torch.ones(1, device="cuda")
    dist.all_reduce(value)
    wandb.log({"value": value.item()})
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
