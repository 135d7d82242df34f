import os

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def route(tokens, counts, world_size):
    """Send counts[i] tokens to rank i."""
    received = torch.empty_like(tokens)
    dist.all_to_all_single(received, tokens, list(counts), list(counts))
    return received


def main():
    rank, world_size = init_distributed()
    tokens = torch.arange(6, dtype=torch.float) + 100 * rank
    counts = [4, 2] if rank == 0 else [1, 5]
    received = route(tokens, counts, world_size)
    print(f"rank {rank}: {received.tolist()}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
