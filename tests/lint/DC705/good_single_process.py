"""The state is that of a single process, by a test of the number of processes next to one of the rank."""

import os

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_node_local_rank())
    size = int(os.environ.get("WORLD_SIZE", "1"))
    model = FSDP(torch.nn.Linear(2, 2), device_id=dist.get_node_local_rank())
    if dist.get_rank() == 0 and dist.get_world_size() == 1:
        torch.save(model.state_dict(), "model.pt")
    if dist.get_rank() == 0 and size == 1:
        torch.save(model.state_dict(), "again.pt")
    if size == 1:
        if dist.get_rank() == 0:
            torch.save(model.state_dict(), "third.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
