import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def worker(index, size):
    torch.cuda.set_device(index)
    dist.init_process_group("nccl", rank=index, world_size=size)
    dist.destroy_process_group()


def main():
    local_rank = int(os.environ.get("LOCAL_RANK", -1))
    if local_rank >= 0:
        torch.cuda.set_device(local_rank)
        dist.init_process_group("nccl")
        dist.destroy_process_group()
        return
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "12355")
    mp.spawn(worker, args=(2,), nprocs=2)


if __name__ == "__main__":
    main()
