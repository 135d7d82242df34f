"""The group is bound to a device by the global rank."""

import os

import torch
import torch.distributed as dist

rank = int(os.environ["RANK"])
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))  # expect: DC201=info
dist.barrier()
dist.destroy_process_group()
