"""The name says local, the value is global."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
local_rank = dist.get_rank()
if local_rank == 0:
    torch.save(torch.ones(4), "result.pt")
dist.destroy_process_group()
