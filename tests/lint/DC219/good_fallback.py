"""RANK first; the local rank only without a launcher."""

import os

import torch
import torch.distributed as dist

local_rank = int(os.environ.get("LOCAL_RANK", "0"))
rank = int(os.environ.get("RANK", local_rank))
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl", rank=rank, world_size=int(os.environ.get("WORLD_SIZE", "1")))
dist.barrier()
dist.destroy_process_group()
