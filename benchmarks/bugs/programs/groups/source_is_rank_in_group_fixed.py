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
    half = world_size // 2
    lower = dist.new_group(list(range(half)))
    upper = dist.new_group(list(range(half, world_size)))
    group = lower if rank < half else upper
    seed = torch.tensor([100 + rank])
    dist.broadcast(seed, src=dist.get_global_rank(group, 0), group=group)
    torch.manual_seed(int(seed))
    print(f"rank {rank}: {seed.item()} {torch.rand(1).item():.4f}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
