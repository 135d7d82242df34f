import os

import torch
import torch.distributed as dist


def is_main():
    return dist.get_rank() == 0


def setup():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")


def main():
    if is_main():  # expect: DC740
        print("starting")
    setup()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
