"""The module of this folder is imported, and not the first of that name."""

import torch
import torch.distributed as dist
from helpers import leading

dist.init_process_group("gloo")
if leading():
    dist.all_reduce(torch.ones(1))
dist.destroy_process_group()
