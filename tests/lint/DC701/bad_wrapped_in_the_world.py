"""Some ranks alone wrap a model in the group of all."""

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


def main():
    dist.init_process_group("nccl")
    local_rank = dist.get_node_local_rank()
    torch.cuda.set_device(local_rank)
    if dist.get_rank() < 2:
        FSDP(torch.nn.Linear(2, 2), process_group=dist.group.WORLD, device_id=local_rank)  # expect: DC701
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
