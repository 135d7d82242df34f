"""Rank 0 saves the state of the module inside of FSDP, which has one shard, or waits for the others."""

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


def main():
    dist.init_process_group("nccl")
    local_rank = dist.get_node_local_rank()
    torch.cuda.set_device(local_rank)
    model = FSDP(torch.nn.Linear(2, 2), device_id=local_rank, use_orig_params=True)
    model(torch.rand(2, 2)).sum().backward()
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), "model.pt")  # expect: DC705
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
