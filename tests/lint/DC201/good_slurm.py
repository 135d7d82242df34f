import os

import torch
import torch.distributed as dist

rank = int(os.environ["SLURM_PROCID"])
gpu = int(os.environ["SLURM_LOCALID"])
torch.cuda.set_device(gpu)
dist.init_process_group("nccl", rank=rank, world_size=int(os.environ["SLURM_NTASKS"]))
dist.barrier()
dist.destroy_process_group()
