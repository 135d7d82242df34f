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
    dtype = torch.float32 if rank == 0 else torch.bfloat16
    norm = torch.zeros(1, dtype=dtype, device=device)
    for step in range(50):
        norm += float(step)
        dist.all_reduce(norm)  # expect: DC709
    if rank == 0:
        print("norm", norm.item())
    dist.destroy_process_group()

if __name__ == "__main__":
    main()
