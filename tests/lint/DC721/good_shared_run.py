import os

import torch
import torch.distributed as dist
import wandb


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    wandb.init(id=os.environ["RUN_ID"], settings=wandb.Settings(mode="shared", x_primary=dist.get_rank() == 0))
    value = torch.ones(1, device="cuda")
    dist.all_reduce(value)
    wandb.log({"value": value.item()})
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
