"""The assertion does not mean that a host has one process."""

import os

import torch
import torch.distributed as dist

assert os.environ["LOCAL_RANK"] != "", "start it with torchrun"

dist.init_process_group(backend="nccl")  # expect: DC206
hosts = [None] * dist.get_world_size()
dist.all_gather_object(hosts, torch.cuda.device_count())
print(hosts)
dist.destroy_process_group()
