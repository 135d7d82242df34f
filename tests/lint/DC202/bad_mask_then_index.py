"""One GPU stays visible, and is then asked for by the local rank."""

import os

local_rank = int(os.environ["LOCAL_RANK"])
os.environ["CUDA_VISIBLE_DEVICES"] = str(local_rank)

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

torch.cuda.set_device(local_rank)  # expect: DC202
dist.init_process_group("nccl")
dist.barrier()
dist.destroy_process_group()
