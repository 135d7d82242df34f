"""Each host has one process, which takes the first GPU."""

import os

import torch
import torch.distributed as dist

assert os.environ["LOCAL_RANK"] == "0", "start it with --nproc_per_node=1"

dist.init_process_group(backend="nccl")
hosts = [None] * dist.get_world_size()
dist.all_gather_object(hosts, torch.cuda.device_count())
print(hosts)
dist.destroy_process_group()
