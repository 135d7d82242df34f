import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total, op=dist.reduce_op.SUM)  # expect: DC760
print(total)
