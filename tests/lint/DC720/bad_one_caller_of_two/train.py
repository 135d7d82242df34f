import os

import torch
import torch.distributed as dist
from checkpoints import write_checkpoint
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    model = DDP(torch.nn.Linear(3, 3).cuda(local_rank), device_ids=[local_rank])
    for epoch in range(3):
        model(torch.ones(1, 3, device=local_rank)).sum().backward()
        if rank == 0:
            write_checkpoint(model.module, "latest.pt")
    # the last one was forgotten
    write_checkpoint(model.module, "final.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
