import os

import torch
import torch.distributed as dist

import logs


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    logs.info("started")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
