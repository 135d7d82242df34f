import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def get_state(model):
    return model.module.state_dict() if isinstance(model, DDP) else model.state_dict()


def main():
    distributed = "WORLD_SIZE" in os.environ
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    torch.cuda.set_device(device)
    if distributed:
        dist.init_process_group("nccl")
    model = torch.nn.Linear(6, 6).to(device)
    if distributed:
        model = DDP(model, device_ids=[device.index])
    model(torch.ones(1, 6, device=device)).sum().backward()
    state = get_state(model)
    path = "model_final.pth"
    torch.save(state, path)  # expect: DC720=warning
    if distributed:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
