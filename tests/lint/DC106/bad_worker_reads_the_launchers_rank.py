import os

import torch
import torch.distributed as dist
from torch.multiprocessing import spawn


def train(process_index, config):
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    print(process_index, config)
    dist.destroy_process_group()


if __name__ == "__main__":
    spawn(train, args=({"lr": 0.1},), nprocs=8, join=True)  # expect: DC106
