import os

import torch.distributed as dist


def main(path: str) -> int:
    if dist.get_rank() == 0:
        if False and os.path.exists(path):
            return 1
    dist.barrier()
    return 0
