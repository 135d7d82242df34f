"""The library's own setup of the group binds the GPU, or may do so."""

import os

import torch
import torch.distributed as dist
from trainer_library.models import ParallelModel

if os.environ.get("RANK") is not None:
    dist.init_process_group(backend="nccl")
    ParallelModel.init_process_group()

model = ParallelModel(torch.nn.Linear(4, 4).to("cuda"))
model(torch.ones(1, 4, device="cuda")).sum().backward()
if dist.is_initialized():
    dist.destroy_process_group()
