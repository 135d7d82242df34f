"""A sampler keeps its group, and the average of the model is made by a deep copy."""

import copy
from datetime import timedelta

import torch.distributed as dist


class Sampler:
    """Knows which part of the data is its own."""

    def __init__(self) -> None:
        self.group = dist.new_group()


def main() -> None:
    """Run one rank."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=10))
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()} is ready", flush=True)
    copy.deepcopy(Sampler())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
