import os

import torch.distributed as dist

rank = int(os.environ["SLURM_PROCID"])
size = int(os.environ["SLURM_NTASKS"])
dist.init_process_group("nccl", init_method=os.environ.get("MEETING", "env://"), rank=rank, world_size=size)
