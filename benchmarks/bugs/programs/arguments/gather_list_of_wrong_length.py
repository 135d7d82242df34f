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
    embedding = torch.randn(2, 4)
    others = [torch.empty(2, 4) for _ in range(world_size - 1)]
    dist.all_gather(others, embedding)
    negatives = torch.cat(others)
    similarity = embedding @ negatives.t()
    print(f"rank {rank}: {tuple(similarity.shape)}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
