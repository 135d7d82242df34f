"""The default is computed as the function is defined: before main() creates the group."""
import os

import torch
import torch.distributed as dist


def info(text, rank=dist.get_rank()):  # expect: DC742
    if rank == 0:
        print(text)


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    info("started")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
