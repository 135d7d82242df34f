"""The global rank in names of files, seeds, log lines and shards: right."""

import os

import torch

rank = int(os.environ["RANK"])
world_size = int(os.environ["WORLD_SIZE"])
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
torch.manual_seed(1234 + rank)
shard = list(range(rank, 1000, world_size))
print(f"rank:{rank} cuda:{local_rank} has {len(shard)} items")
torch.save(torch.ones(1), f"optimizer-{rank}.pt")
moved = torch.ones(1).to(torch.float16)
print(moved[0].item(), [0.0] * rank)
