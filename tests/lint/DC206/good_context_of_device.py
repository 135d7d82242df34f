"""All work stands inside of the device's context."""

import os

import torch
import torch.distributed as dist


def main():
    with torch.cuda.device(int(os.environ["LOCAL_RANK"])):
        dist.init_process_group("nccl")
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
