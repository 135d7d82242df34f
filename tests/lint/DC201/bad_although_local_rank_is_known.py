"""LOCAL_RANK is read, and then the wrong one of the two is taken."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main() -> None:
    rank = int(os.environ["RANK"])
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group(backend="nccl")
    model = torch.nn.Linear(8, 8).to(rank)  # expect: DC201=info
    model = DDP(model, device_ids=[rank], output_device=rank)  # expect: DC201=info
    model(torch.ones(1, 8, device=local_rank)).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
