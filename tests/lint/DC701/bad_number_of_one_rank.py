import torch
import torch.distributed as dist

dist.init_process_group("gloo")
first = 0
if dist.get_rank() == 0:
    first = 1
if first == 1:
    dist.all_reduce(torch.ones(1))  # expect: DC701
dist.destroy_process_group()
