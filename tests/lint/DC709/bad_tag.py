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
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    header, body = torch.zeros(2), torch.zeros(64)
    for step in range(10):
        if rank == 0:
            dist.send(header, dst=1, tag=1)
            dist.send(body, dst=1, tag=2)
        elif rank == 1:
            dist.recv(header, src=0, tag=1)
            dist.recv(body, src=0, tag=3)  # expect: DC709
    dist.barrier()
    dist.destroy_process_group()

if __name__ == "__main__":
    main()
