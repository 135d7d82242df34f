import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def gather_state(model, rank):
    state = model.module.state_dict()
    return state if rank == 0 else None


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    model = DDP(torch.nn.Linear(8, 8).cuda(), device_ids=[local_rank])
    model(torch.randn(4, 8, device="cuda")).sum().backward()
    state = gather_state(model, rank)
    if state is not None:
        torch.save(state, "model.pt")
    path = "model.ckpt" if rank == 0 else None
    if path:
        torch.save({"model": model.module.state_dict()}, path)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
