"""The number of the node is worked out, and only shown: several hosts are meant."""

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
node_rank = dist.get_rank() // 8
torch.cuda.set_device(dist.get_rank())  # expect: DC201
