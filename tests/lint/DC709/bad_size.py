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

def gather_ids(rank, world_size, device):
    mine = torch.arange(128 + rank, device=device)
    parts = [torch.empty_like(mine) for _ in range(world_size)]
    dist.all_gather(parts, mine)  # expect: DC709
    return torch.cat(parts)


def main():
    rank, world_size, device = setup()
    ids = gather_ids(rank, world_size, device)
    if rank == 0:
        torch.save(ids, "ids.pt")
    dist.barrier()
    dist.destroy_process_group()

if __name__ == "__main__":
    main()
