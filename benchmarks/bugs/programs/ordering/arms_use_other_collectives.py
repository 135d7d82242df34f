import os

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def main():
    rank, _ = init_distributed()
    size = torch.zeros(1, dtype=torch.long)
    if rank == 0:
        words = {w for w in "the cat sat on the mat".split()}
        size[0] = len(words)
        dist.broadcast(size, src=0)
    else:
        dist.barrier()
    embedding = torch.zeros(max(int(size), 1), 4)
    dist.all_reduce(embedding)
    print(f"rank {rank}: {tuple(embedding.shape)}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
