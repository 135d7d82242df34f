"""What torchrun has set is written over."""

import os

import torch
import torch.distributed as dist

os.environ["WORLD_SIZE"] = str(torch.cuda.device_count())  # expect: DC213
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
dist.barrier()
dist.destroy_process_group()
