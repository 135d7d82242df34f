import os

import torch
import torch.distributed as dist

local_rank = int(os.environ["LOCAL_RANK"])
node = int(os.environ["NODE_RANK"])
per_node = int(os.environ["LOCAL_WORLD_SIZE"])
rank = node * per_node + local_rank
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl", rank=rank, world_size=int(os.environ["NNODES"]) * per_node)
print(list(range(100))[rank :: dist.get_world_size()])
dist.destroy_process_group()
