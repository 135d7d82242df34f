"""The test of the name, kept in a variable."""
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def worker(rank, world):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=world)
    dist.barrier()
    dist.destroy_process_group()


def main(world):
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    mp.spawn(worker, args=(world,), nprocs=world)


if __name__ in {"__main__", "__mp_main__"}:
    started = __name__ == "__main__"
    if started:
        main(torch.cuda.device_count())
