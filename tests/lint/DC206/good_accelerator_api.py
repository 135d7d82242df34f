"""torch's device-neutral spelling."""

import os

import torch
import torch.distributed as dist

torch.accelerator.set_device_index(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
dist.barrier()
dist.destroy_process_group()
