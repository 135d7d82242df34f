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
    everyone = [torch.empty(2, 4) for _ in range(world_size)]
    dist.all_gather(everyone, embedding)
    negatives = torch.cat([part for index, part in enumerate(everyone) if index != rank])
    similarity = embedding @ negatives.t()
    print(f"rank {rank}: {tuple(similarity.shape)}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
