"""The branch calls a helper, and only that one asks the sharded model."""

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


def save(model: torch.nn.Module, path: str) -> None:
    torch.save(model.state_dict(), path)  # expect: DC705


def main() -> None:
    dist.init_process_group("gloo")
    model = FSDP(torch.nn.Linear(8, 8))
    if dist.get_rank() == 0:
        save(model, "model.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
