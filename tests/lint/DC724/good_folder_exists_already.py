"""All ranks have made the folder before; that the first one makes it again changes nothing."""

import os

import torch
import torch.distributed as dist


def main(folder):
    dist.init_process_group("gloo")
    os.makedirs(folder, exist_ok=True)
    if dist.get_rank() == 0:
        os.makedirs(folder, exist_ok=True)
    torch.save({"rank": dist.get_rank()}, os.path.join(folder, f"{dist.get_rank()}.pt"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main("out")
