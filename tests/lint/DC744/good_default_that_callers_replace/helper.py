import os

import torch.distributed as dist


def connect(port=12806):
    os.environ["MASTER_PORT"] = str(port)
    dist.init_process_group("nccl")
