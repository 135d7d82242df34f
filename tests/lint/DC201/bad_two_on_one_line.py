"""The model and its wrapper take the same rank in one line: one finding."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    torch.cuda.set_device(rank)  # expect: DC201=info
    model = DistributedDataParallel(torch.nn.Linear(16, 4).to(rank), device_ids=[rank])  # expect: DC201=info
    model(torch.ones(2, 16, device="cuda")).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
