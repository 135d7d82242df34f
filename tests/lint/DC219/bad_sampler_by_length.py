import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader
from transformers.trainer_pt_utils import DistributedLengthGroupedSampler


def main(data):
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    sampler = DistributedLengthGroupedSampler(8, data, dist.get_world_size(), local_rank)  # expect: DC219=info
    print(len(DataLoader(data, sampler=sampler)))
    dist.destroy_process_group()
