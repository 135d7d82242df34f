import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def is_main_process():
    return not dist.is_initialized() or dist.get_rank() == 0


def finish(model, history):
    if is_main_process():
        print("done", history[-1])
    torch.save({"model": model.module.state_dict(), "history": history}, "final.pth")  # expect: DC720=warning


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = DDP(torch.nn.Linear(2, 2).cuda(), device_ids=[local_rank])
    history = []
    for _ in range(10):
        loss = model(torch.randn(1, 2, device="cuda")).sum()
        loss.backward()
        history.append(loss.item())
    finish(model, history)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
