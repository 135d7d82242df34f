import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def unwrap(model: torch.nn.Module) -> torch.nn.Module:
    return model.module if hasattr(model, "module") else model


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = DistributedDataParallel(torch.nn.Linear(16, 16).cuda(), device_ids=[local_rank])
    optimizer = torch.optim.Adam(model.parameters())
    network = unwrap(model)
    for _ in range(10):
        x = torch.randn(2, 16, device="cuda")
        prediction = network(x)  # expect: DC750
        loss = torch.nn.functional.mse_loss(prediction, x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
