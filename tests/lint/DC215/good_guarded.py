import os

import torch
import torch.distributed as dist

local_rank = int(os.environ.get("LOCAL_RANK", -1))
if local_rank != -1:
    torch.cuda.set_device(local_rank)
    device = torch.device("cuda", local_rank)
    dist.init_process_group("nccl")
else:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print(torch.ones(1, device=device))
if dist.is_initialized():
    dist.destroy_process_group()
