import os
import time

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def tokenize(path):
    time.sleep(0.5)
    torch.save(torch.arange(100), path)


def main():
    rank, _ = init_distributed()
    path = "tokens.pt"
    if rank == 0:
        tokenize(path)
    tokens = torch.load(path)
    counts = torch.tensor([float(len(tokens))])
    dist.all_reduce(counts)
    print(f"rank {rank}: {counts.item()}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
