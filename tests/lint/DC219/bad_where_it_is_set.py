import os

import torch
import torch.distributed as dist

if "RANK" in os.environ:
    os.environ["RANK"] = os.environ["LOCAL_RANK"]  # expect: DC219=info
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
dist.barrier()
dist.destroy_process_group()
