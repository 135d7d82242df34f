import os

import torch
import torch.distributed as dist

local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl", rank=int(os.environ["RANK"]), world_size=torch.cuda.device_count())  # expect: DC213
dist.barrier()
dist.destroy_process_group()
