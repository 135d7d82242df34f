import os

import torch
import torch.distributed as dist
from torch.utils.data.distributed import DistributedSampler
from torch_geometric.loader import DataLoader


def run(graphs):
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    sampler = DistributedSampler(graphs, num_replicas=dist.get_world_size(), rank=dist.get_rank(), shuffle=False)
    loader = DataLoader(graphs, batch_size=16, shuffle=True, sampler=sampler)  # expect: DC731
    size = torch.tensor([len(loader)], device="cuda")
    dist.all_reduce(size)
    dist.destroy_process_group()
