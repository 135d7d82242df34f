import os

import torch
import torch.distributed as dist

local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group(
    "nccl",
    "env://",
    None,
    torch.cuda.device_count(),  # expect: DC213
    int(os.environ["RANK"]),
)
dist.barrier()
dist.destroy_process_group()
