import os

import torch
import torch.distributed as dist
from optimizers import build_optimizer
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    network = torch.nn.Linear(16, 4).cuda()
    optimizer = build_optimizer(network, 1e-3)
    sharded = FullyShardedDataParallel(network, sharding_strategy=ShardingStrategy.FULL_SHARD)
    for _ in range(10):
        sharded(torch.randn(8, 16, device="cuda")).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
