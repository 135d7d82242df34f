import argparse
import os

import torch
import torch.distributed as dist
import torchvision


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    args = parser.parse_args()
    distributed = "WORLD_SIZE" in os.environ
    rank = int(os.environ.get("RANK", "0"))
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    torch.cuda.set_device(local_rank)
    model = torchvision.models.resnet18()
    model.fc = torch.nn.Linear(model.fc.in_features, 5)
    model = model.cuda()
    if distributed:
        dist.init_process_group("nccl")
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(args.epochs):
        loss = model(torch.randn(8, 3, 224, 224, device="cuda")).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if not distributed or rank == 0:
            torch.save(model.module if distributed else model, f"model_{epoch}.pt")  # expect: DC615
    if distributed:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
