"""Sums one number over all ranks."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
if dist.get_rank() == 0:
    print(f"{total.item():g} ranks have joined")
dist.destroy_process_group()
