import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def save_checkpoint(state, is_best, filename="checkpoint.pth.tar"):
    torch.save(state, filename)
    if is_best:
        torch.save(state, "model_best.pth.tar")


def finish_epoch(model, epoch, is_best):
    save_checkpoint({"epoch": epoch, "state_dict": model.module.state_dict()}, is_best)


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = DDP(torch.nn.Linear(8, 8).cuda(), device_ids=[local_rank])
    best = 1e9
    for epoch in range(3):
        loss = model(torch.randn(4, 8, device="cuda")).sum()
        loss.backward()
        if dist.get_rank() == 0:
            finish_epoch(model, epoch, loss.item() < best)
            best = min(best, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
