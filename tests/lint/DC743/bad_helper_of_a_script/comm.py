import os

import torch
import torch.distributed as dist


def setup():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")  # expect: DC743=info
