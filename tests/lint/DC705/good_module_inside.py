"""The module inside is whole, as all ranks made it so, or it is one of DDP, or shards are no matter."""

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import ShardingStrategy
from torch.nn.parallel import DistributedDataParallel


def summoned(local_rank):
    model = FSDP(torch.nn.Linear(2, 2), device_id=local_rank)
    with FSDP.summon_full_params(model, writeback=False):
        if dist.get_rank() == 0:
            torch.save(model.module.state_dict(), "model.pt")


def not_sharded(local_rank):
    model = FSDP(torch.nn.Linear(2, 2), device_id=local_rank, sharding_strategy=ShardingStrategy.NO_SHARD)
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), "model.pt")


def replicated(local_rank):
    model = DistributedDataParallel(torch.nn.Linear(2, 2).cuda(), device_ids=[local_rank])
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), "model.pt")


def main():
    dist.init_process_group("nccl")
    local_rank = dist.get_node_local_rank()
    torch.cuda.set_device(local_rank)
    for function in (summoned, not_sharded, replicated):
        function(local_rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
