"""All ranks call the model in FSDP, or it is whole on rank 0."""

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import ShardingStrategy


def main():
    dist.init_process_group("nccl")
    local_rank = dist.get_node_local_rank()
    torch.cuda.set_device(local_rank)
    model = FSDP(torch.nn.Linear(2, 2), device_id=local_rank)
    with torch.no_grad():
        total = model(torch.rand(2, 2)).sum()
    if dist.get_rank() == 0:
        print(total)
    with FSDP.summon_full_params(model, writeback=False):
        if dist.get_rank() == 0:
            print(model.module.weight)
    whole = FSDP(torch.nn.Linear(2, 2), device_id=local_rank, sharding_strategy=ShardingStrategy.NO_SHARD)
    if dist.get_rank() == 0:
        with torch.no_grad():
            print(whole(torch.rand(2, 2)))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
