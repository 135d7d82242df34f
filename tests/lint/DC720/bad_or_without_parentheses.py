"""``and`` binds tighter than ``or``: in the last epoch all ranks pass the test."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main(batches: list, epochs: int) -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = DDP(torch.nn.Linear(4, 4).cuda(), device_ids=[local_rank])
    for epoch in range(epochs):
        for batch in batches:
            model(batch).sum().backward()
        if dist.get_rank() == 0 and epoch % 5 == 0 or epoch == epochs - 1:
            torch.save(model.module.state_dict(), "model.pt")  # expect: DC720
    dist.destroy_process_group()


if __name__ == "__main__":
    main([], 3)
