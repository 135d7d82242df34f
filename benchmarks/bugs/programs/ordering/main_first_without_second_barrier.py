import contextlib
import os
from pathlib import Path

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


@contextlib.contextmanager
def main_process_first(rank):
    """Rank 0 runs the block before the others."""
    if rank != 0:
        dist.barrier()
    yield


def build_vocabulary(path):
    if path.exists():
        return path.read_text().split()
    words = [f"word{i}" for i in range(10)]
    path.write_text(" ".join(words))
    return words


def main():
    rank, _ = init_distributed()
    with main_process_first(rank):
        words = build_vocabulary(Path("vocabulary.txt"))
    embedding = torch.zeros(len(words), 4)
    if rank == 0:
        embedding.normal_()
    dist.broadcast(embedding, src=0)
    print(f"rank {rank}: {len(words)} words, norm {embedding.norm():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
