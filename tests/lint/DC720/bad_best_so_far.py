import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def validate(model, device):
    with torch.no_grad():
        correct = (model(torch.randn(64, 8, device=device)) > 0).float().mean()
    dist.all_reduce(correct)
    return correct.item() / dist.get_world_size()


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    device = torch.device("cuda", local_rank)
    model = DDP(torch.nn.Linear(8, 1).to(device), device_ids=[local_rank])
    best = 0.0
    for epoch in range(20):
        model(torch.randn(8, 8, device=device)).sum().backward()
        accuracy = validate(model, device)
        if accuracy > best:
            best = accuracy
            torch.save({"epoch": epoch, "model": model.module.state_dict()}, "best.pth")  # expect: DC720
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
