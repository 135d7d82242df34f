"""The count stands in where no launcher has set the size."""

import os

import torch
import torch.distributed as dist

world_size = int(os.environ.get("WORLD_SIZE", torch.cuda.device_count()))
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl", rank=int(os.environ["RANK"]), world_size=world_size)
dist.barrier()
dist.destroy_process_group()
