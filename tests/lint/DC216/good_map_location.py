"""The device in a map_location is where the file's tensors come from; and a default that is replaced."""

import os

import torch
import torch.distributed as dist

local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
dist.barrier()
state = torch.load("last.pt", map_location={"cuda:0": f"cuda:{local_rank}"})
print(len(state), torch.cuda.get_device_name(0))
dist.destroy_process_group()
