import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler
def setup():
    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    return dist.get_rank(), dist.get_world_size(), torch.device("cuda", local_rank)

def shift(block, rank, world_size):
    right = (rank + 1) % world_size
    left = (rank - 1) % world_size
    incoming = torch.empty_like(block)
    send = dist.isend(block, dst=right)
    receive = dist.irecv(incoming, src=left)
    send.wait()
    receive.wait()
    return incoming


def main():
    rank, world_size, device = setup()
    block = torch.full((1024,), float(rank), device=device)
    total = block.clone()
    for step in range(world_size - 1):
        block = shift(block, rank, world_size)
        total += block
    dist.destroy_process_group()

if __name__ == "__main__":
    main()
