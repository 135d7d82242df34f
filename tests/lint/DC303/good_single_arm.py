import os

import torch
import torch.distributed as dist

if "LOCAL_RANK" in os.environ:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
else:
    torch.cuda.set_device(0)
print(torch.ones(1, device="cuda"))
if dist.is_initialized():
    dist.destroy_process_group()
