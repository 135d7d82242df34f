"""A group of one."""

import torch
import torch.distributed as dist

torch.cuda.set_device(0)
dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
dist.barrier()
dist.destroy_process_group()
