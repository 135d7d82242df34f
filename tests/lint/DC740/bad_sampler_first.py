import os

import torch
from torch.distributed import destroy_process_group, init_process_group
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def setup():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    init_process_group("nccl")


def main(dataset, model):
    sampler = DistributedSampler(dataset)  # expect: DC740
    loader = DataLoader(dataset, batch_size=8, sampler=sampler)
    setup()
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for batch in loader:
            model(batch)
    destroy_process_group()
