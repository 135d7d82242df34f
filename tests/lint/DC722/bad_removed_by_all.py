"""All ranks remove what the last run has left."""

import os
import shutil

import torch
import torch.distributed as dist


def set_up() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")


def main(folder: str) -> None:
    set_up()
    if os.path.exists(folder):
        shutil.rmtree(folder)  # expect: DC722
    dist.barrier()
    if not os.path.exists("code"):
        shutil.copytree(".", "code")  # expect: DC722
    os.rename("last.pt", "before.pt")  # expect: DC722
    dist.destroy_process_group()


if __name__ == "__main__":
    main("out")
