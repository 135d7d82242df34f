"""It keeps a file open for each sample."""

import tempfile
from datetime import timedelta

import torch.distributed as dist


def main() -> None:
    """Run one rank."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=15))
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()} is ready", flush=True)
    shards = []
    for number in range(5000):
        shards.append(tempfile.TemporaryFile())  # noqa: SIM115 - that they stay open is the point
        if number % 1000 == 0:
            dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
