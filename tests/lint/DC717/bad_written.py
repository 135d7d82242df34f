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
    stats = torch.ones(8, device=device)
    for step in range(100):
        work = dist.all_reduce(stats, async_op=True)
        stats.zero_()  # expect: DC717
        torch.cuda.synchronize()
        work.wait()
    dist.destroy_process_group()

if __name__ == "__main__":
    main()
