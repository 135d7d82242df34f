"""Weights of a wrapped model, loaded into the model itself."""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    """Run one rank."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=10))
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()} is ready", flush=True)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    state = DistributedDataParallel(model).state_dict()
    model.load_state_dict(state)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
