"""All GPUs stay visible: the local rank is an index into what is visible."""

import os

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0,1,2,3")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
dist.barrier()
dist.destroy_process_group()
