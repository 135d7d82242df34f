"""Counting, saving and freezing touch the wrapper without a forward pass."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def count(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def main() -> None:
    dist.init_process_group("gloo")
    model = DDP(torch.nn.Linear(8, 2))
    if dist.get_rank() == 0:
        print(count(model), model)
        torch.save(model.module.state_dict(), "model.pt")
        model.zero_grad()
    loss = model(torch.rand(2, 8)).sum()
    loss.backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
