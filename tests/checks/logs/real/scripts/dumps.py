"""One rank takes another branch; each writes what its flight recorder has seen."""

import os
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _dump_fr_trace_json


def main() -> None:
    """Run one rank."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=4))
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()} is ready", flush=True)
    try:
        for _step in range(3):
            dist.all_reduce(torch.ones(4))
        if rank == 1:
            dist.barrier()
        dist.all_reduce(torch.ones(16))
        dist.all_gather([torch.zeros(2) for _ in range(dist.get_world_size())], torch.ones(2))
    finally:
        Path(f"{os.environ['DUMPS']}/fr_trace_{rank}.json").write_bytes(_dump_fr_trace_json(True, True))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
