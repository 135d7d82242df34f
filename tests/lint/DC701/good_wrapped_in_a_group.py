"""The ranks of a group wrap a model among themselves."""

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.nn.parallel import DistributedDataParallel


def main():
    dist.init_process_group("nccl")
    local_rank = dist.get_node_local_rank()
    torch.cuda.set_device(local_rank)
    pair = dist.new_group([0, 1])
    if dist.get_rank() < 2:
        DistributedDataParallel(torch.nn.Linear(2, 2).cuda(), process_group=pair)
        FSDP(torch.nn.Linear(2, 2), process_group=pair, device_id=local_rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
