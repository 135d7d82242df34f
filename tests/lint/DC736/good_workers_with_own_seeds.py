"""Each worker takes its seed from torch, or from its number."""

import os
import random

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler


def seed_worker(worker_id: int) -> None:
    np.random.seed(torch.initial_seed() % 2**32)
    random.seed(987 + worker_id)


def main(data: list) -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = DDP(torch.nn.Linear(4, 4).cuda(), device_ids=[local_rank])
    sampler = DistributedSampler(data)
    loader = DataLoader(data, sampler=sampler, num_workers=4, worker_init_fn=seed_worker)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for batch in loader:
            model(batch.cuda()).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main([torch.rand(4)])
