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
    metrics = {"loss": 1.0, "acc": 0.5, "top5": 0.9, "unused": 0.0}
    wanted = {"loss", "acc", "top5"}
    for name in wanted:
        value = torch.tensor(metrics[name], device=device)
        dist.all_reduce(value)  # expect: DC718
        metrics[name] = value.item() / world_size
    if rank == 0:
        print(metrics)
    dist.destroy_process_group()

if __name__ == "__main__":
    main()
