"""With one node the spawned index is the rank."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.utils.data import TensorDataset
from torch.utils.data.distributed import DistributedSampler


def worker(index, world_size):
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    torch.cuda.set_device(index)
    dist.init_process_group("nccl", rank=index, world_size=world_size)
    data = TensorDataset(torch.arange(100.0))
    print(len(DistributedSampler(data, num_replicas=world_size, rank=index, shuffle=False)))
    dist.destroy_process_group()


if __name__ == "__main__":
    count = torch.cuda.device_count()
    mp.spawn(worker, args=(count,), nprocs=count)
