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

def main():
    rank, world_size, device = setup()
    even = dist.new_group(list(range(0, world_size, 2)))
    odd = dist.new_group(list(range(1, world_size, 2)))
    everyone = dist.new_group(list(range(world_size)))
    a, b = torch.ones(8, device=device), torch.ones(8, device=device)
    for step in range(10):
        if rank % 2 == 0:
            dist.all_reduce(a, group=even)
            dist.all_reduce(b, group=everyone)
        else:
            dist.all_reduce(a, group=odd)
            dist.all_reduce(b, group=everyone)
    dist.destroy_process_group()

if __name__ == "__main__":
    main()
