import os

import torch
import torch.distributed as dist


def rank():
    return dist.get_rank() if dist.is_initialized() else 0


def main():
    before = rank()
    if dist.is_available() and dist.is_initialized():
        dist.barrier()
    world = dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    print(before, world, rank())
    dist.destroy_process_group()
    if not dist.is_initialized():
        return
    dist.barrier()


if __name__ == "__main__":
    main()
