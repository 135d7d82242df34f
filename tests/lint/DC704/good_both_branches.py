"""Each branch makes the forward pass; what only one rank does with the model makes none, however deep it goes."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def describe(model: torch.nn.Module, level: int) -> None:
    if level:
        describe_parts(model, level - 1)


def describe_parts(model: torch.nn.Module, level: int) -> None:
    print(sum(parameter.numel() for parameter in model.parameters()))
    describe(model, level)


def main() -> None:
    dist.init_process_group("gloo")
    model = DDP(torch.nn.Linear(2, 1))
    batch = torch.ones(2)
    if dist.get_rank() == 0:
        out = model(batch)
        print(out)
    else:
        out = model(batch)
    out.sum().backward()
    if dist.get_rank() == 0:
        describe(model, 3)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
