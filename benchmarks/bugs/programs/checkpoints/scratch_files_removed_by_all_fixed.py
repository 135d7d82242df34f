import os
import shutil
from pathlib import Path

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def main():
    rank, _ = init_distributed()
    scratch = Path("scratch")
    scratch.mkdir(exist_ok=True)
    dist.barrier()
    torch.save(torch.randn(4), scratch / f"part{rank}.pt")
    dist.barrier()
    parts = [torch.load(path) for path in sorted(scratch.glob("part*.pt"))]
    print(f"rank {rank}: {torch.stack(parts).shape}")
    dist.barrier()
    if rank == 0:
        shutil.rmtree(scratch)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
