"""One GPU is visible to each rank: all of them call it 0."""

import os

os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["LOCAL_RANK"]

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

torch.cuda.set_device(0)
dist.init_process_group("nccl")
dist.barrier()
dist.destroy_process_group()
