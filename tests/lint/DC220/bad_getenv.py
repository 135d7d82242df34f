import os

import torch
from torch import distributed

local_rank = int(os.getenv("LOCAL_RANK", "0"))  # expect: DC220
torch.cuda.set_device(local_rank)
distributed.init_process_group("nccl")
distributed.destroy_process_group()
