import torch
import torch.distributed as dist

device = torch.device("cuda:0")
dist.init_process_group("nccl", device_id=device)  # expect: DC303
dist.barrier()
dist.destroy_process_group()
