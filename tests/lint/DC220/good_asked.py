import torch
import torch.distributed as dist

torch.cuda.set_device(dist.get_node_local_rank(fallback_rank=0))
dist.init_process_group("nccl")
dist.destroy_process_group()
