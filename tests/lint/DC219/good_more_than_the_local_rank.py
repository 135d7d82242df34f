"""The text holds more than the local rank: what it becomes is not known."""

import os

import torch.distributed as dist

local_rank = int(os.environ["LOCAL_RANK"])
os.environ["RANK"] = f"1{local_rank}"
dist.init_process_group("gloo")
dist.barrier()
dist.destroy_process_group()
