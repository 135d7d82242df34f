import os

import torch
import torch.distributed as dist


class Setup:
    def __init__(self, local_rank=None, rank=None):
        self.local_rank = local_rank or os.environ.get("LOCAL_RANK") or 0  # expect: DC211
        self.rank = rank if rank else dist.get_rank()  # expect: DC211

    def device(self):
        return torch.device("cuda", int(self.local_rank))
