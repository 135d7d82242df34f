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
    left = dist.new_group(list(range(world_size)))
    right = dist.new_group(list(range(world_size)))
    a, b = torch.ones(8, device=device), torch.ones(8, device=device)
    for step in range(10):
        if rank % 2 == 0:
            dist.all_reduce(a, group=left)  # expect: DC703
            dist.all_reduce(b, group=right)
        else:
            dist.all_reduce(b, group=right)
            dist.all_reduce(a, group=left)
    dist.destroy_process_group()

if __name__ == "__main__":
    main()
