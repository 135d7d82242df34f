import os

import torch
import torch.distributed as dist


def setup():
    if dist.is_initialized():
        return
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")


def setup_too():
    if dist.is_available() and not dist.is_initialized():
        dist.init_process_group("nccl")


def main():
    setup()
    setup()
    setup_too()
    print(dist.get_rank())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
