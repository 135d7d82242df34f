"""Only one rank does it: nobody shares."""

import os

import torch
import torch.distributed as dist

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
dist.barrier()
if dist.get_rank() == 0:
    print(torch.nn.Linear(4, 4).to("cuda:0")(torch.ones(1, 4, device="cuda:0")))
dist.destroy_process_group()
