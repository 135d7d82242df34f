import os

import torch
import torch.distributed as dist

nodes = int(os.environ["NNODES"])
node = int(os.environ["NODE_RANK"])
local_rank = int(os.environ["LOCAL_RANK"])
per_node = torch.cuda.device_count()
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl", rank=node * per_node + local_rank, world_size=nodes * per_node)
dist.barrier()
dist.destroy_process_group()
