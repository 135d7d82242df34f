import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def average_gradients(module: torch.nn.Module) -> None:
    for parameter in module.parameters():
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = DDP(torch.nn.Linear(16, 4).cuda(), device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(100):
        optimizer.zero_grad()
        loss = model.module(torch.randn(8, 16, device="cuda")).mean()
        loss.backward()
        average_gradients(model.module)
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
