import os

import torch
import torch.distributed as dist

if __name__ == "__main__":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    value = torch.ones(1, device="cuda")
    dist.all_reduce(value)
    dist.destroy_process_group()
