"""The form that everything else is measured by."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", local_rank))
    model = DistributedDataParallel(torch.nn.Linear(4, 4).to(local_rank), device_ids=[local_rank])
    model(torch.ones(1, 4, device=f"cuda:{local_rank}")).sum().backward()
    if dist.get_rank() == 0:
        print("done")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
