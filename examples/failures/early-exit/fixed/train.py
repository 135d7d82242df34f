"""Counts files; a rank without files returns after all have counted."""

from datetime import timedelta

import torch
import torch.distributed as dist

FILES = ["a.txt", "b.txt", "c.txt"]


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=5))
    rank = dist.get_rank()
    total = torch.tensor(len(FILES[rank * 3 : rank * 3 + 3]))
    dist.all_reduce(total)
    if rank * 3 >= len(FILES):
        print(f"rank {rank} has no files")
        return
    print(f"rank {rank}: {total} files")


if __name__ == "__main__":
    main()
    dist.destroy_process_group()
