"""A forked process has the state of its parent."""

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def worker(rank, size):
    dist.init_process_group("gloo", init_method="env://", rank=rank, world_size=size)
    print(rank, torch.rand(1))
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.manual_seed(42)
    mp.start_processes(worker, nprocs=4, args=(4,), start_method="fork")
