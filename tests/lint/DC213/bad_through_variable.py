import os

import torch
import torch.distributed as dist


def main():
    world_size = torch.cuda.device_count()
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    setup(rank, world_size)
    dist.barrier()
    dist.destroy_process_group()


def setup(rank, size):
    dist.init_process_group(backend="nccl", rank=rank, world_size=size)  # expect: DC213


if __name__ == "__main__":
    main()
