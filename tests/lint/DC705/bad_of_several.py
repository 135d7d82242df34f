"""Rank 0 alone gathers the state where there are several processes."""

import os

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_node_local_rank())
    size = int(os.environ.get("WORLD_SIZE", "1"))
    model = FSDP(torch.nn.Linear(2, 2), device_id=dist.get_node_local_rank())
    if dist.get_rank() == 0 and size > 1:
        torch.save(model.state_dict(), "model.pt")  # expect: DC705
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
