"""The mask comes too late, and the process has bound the same GPU: moved up, it would break set_device."""

import os

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.getenv("LOCAL_RANK", "0")))
os.environ["CUDA_VISIBLE_DEVICES"] = os.getenv("LOCAL_RANK", "0")  # expect: DC214=info
