import os

import torch
import torch.distributed as dist


def main(rank, world):
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    path = os.path.abspath("rendezvous")
    dist.init_process_group("nccl", init_method=f"file://{path}", rank=rank, world_size=world)  # expect: DC746
    dist.barrier()
    dist.destroy_process_group()
