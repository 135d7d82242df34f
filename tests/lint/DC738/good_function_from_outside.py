"""What the ranks run is not known here, and the seed is for the data that the parent makes."""

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def worker(rank, size, function, data):
    dist.init_process_group("gloo", init_method="env://", rank=rank, world_size=size)
    function(rank, data)
    dist.destroy_process_group()


def launch(function, size):
    torch.manual_seed(42)
    mp.spawn(worker, nprocs=size, args=(size, function, torch.rand(8)))
