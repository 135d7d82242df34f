"""Only one GPU is visible to each rank: there is nothing to choose."""

import os

os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["LOCAL_RANK"]

import torch.distributed as dist  # noqa: E402

dist.init_process_group("nccl")
dist.barrier()
dist.destroy_process_group()
