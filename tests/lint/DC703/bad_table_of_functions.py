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

def lead(table):
    dist.broadcast(table, src=0)
    print("sent", table.shape)


def follow(table):
    dist.broadcast(table, src=0)
    dist.barrier()


def main():
    rank, world_size, device = setup()
    table = torch.zeros(1024, 16, device=device)
    roles = {"lead": lead, "follow": follow}
    role = "lead" if rank == 0 else "follow"
    roles[role](table)  # expect: DC703
    dist.destroy_process_group()

if __name__ == "__main__":
    main()
