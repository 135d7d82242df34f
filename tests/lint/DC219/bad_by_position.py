import os

import torch
import torch.distributed as dist

local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group(
    "nccl",
    "env://",
    None,
    int(os.environ["WORLD_SIZE"]),
    local_rank,  # expect: DC219=info
)
dist.barrier()
dist.destroy_process_group()
