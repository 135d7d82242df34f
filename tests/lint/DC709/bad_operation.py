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

def collect(times, rank, device):
    stats = torch.tensor(times, device=device)
    op = dist.ReduceOp.MAX if rank == 0 else dist.ReduceOp.SUM
    dist.all_reduce(stats, op=op)  # expect: DC709
    return stats


def main():
    rank, world_size, device = setup()
    times = []
    for step in range(10):
        torch.cuda.synchronize()
        times.append(float(step))
    stats = collect(times, rank, device)
    if rank == 0:
        print("slowest", stats.max().item())
    dist.destroy_process_group()

if __name__ == "__main__":
    main()
