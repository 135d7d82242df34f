import os

import torch
import torch.distributed as dist


def setup():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")


def cleanup():
    dist.barrier()
    dist.destroy_process_group()


def main(rounds):
    for _ in range(rounds):
        setup()
        cleanup()
    setup()
    print(dist.get_rank())
    cleanup()
