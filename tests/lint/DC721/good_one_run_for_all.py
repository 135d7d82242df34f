"""All ranks log into one run, by its id."""

import os

import torch.distributed as dist
import wandb


def main():
    dist.init_process_group("gloo")
    wandb.init(project="ranks", id=os.environ["RUN"], resume="allow")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
