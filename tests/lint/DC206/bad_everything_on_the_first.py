"""cuda without an index is GPU 0 for all."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    dist.init_process_group(backend="nccl")  # expect: DC206
    device = torch.device("cuda")
    model = DistributedDataParallel(torch.nn.Linear(4, 4).to(device))
    model(torch.ones(1, 4, device=device)).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
