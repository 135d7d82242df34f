import os

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def main():
    rank, world_size = init_distributed()
    readers = [0, 1]
    group = dist.new_group(readers)
    vocabulary = torch.zeros(1)
    if rank in readers:
        vocabulary += 10 * (rank + 1)
        dist.barrier(group=group)
        dist.all_reduce(vocabulary, op=dist.ReduceOp.MAX, group=group)
    dist.broadcast(vocabulary, src=0)
    print(f"rank {rank}: {vocabulary.item()}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
