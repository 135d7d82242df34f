"""A script without functions."""
import os

import torch
import torch.distributed as dist

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.barrier()  # expect: DC740
dist.init_process_group("nccl")
dist.barrier()
dist.destroy_process_group()
