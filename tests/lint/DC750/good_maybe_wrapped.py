import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    args = parser.parse_args()
    distributed = "WORLD_SIZE" in os.environ
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    torch.cuda.set_device(local_rank)
    model = torch.nn.Linear(16, 4).cuda()
    if distributed:
        dist.init_process_group("nccl")
        model = DDP(model, device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(args.steps):
        loss = model(torch.randn(8, 16, device="cuda")).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    raw = model.module if distributed else model
    print(raw.weight.norm().item())
    if distributed:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
