"""Binds each rank to the GPU of its rank."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    dist.init_process_group()
    rank = dist.get_rank()
    if torch.cuda.is_available():
        torch.cuda.set_device(rank)
    device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
    model = DistributedDataParallel(torch.nn.Linear(8, 1).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        loss = model(torch.rand(16, 8, device=device)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if rank == 0:
        print(f"{dist.get_world_size()} ranks have trained")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
