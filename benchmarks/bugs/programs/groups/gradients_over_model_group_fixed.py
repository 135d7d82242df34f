import os

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


class Topology:
    """Ranks 0 and 1 share a model, ranks 2 and 3 the next replica."""

    def __init__(self, rank, model_size=2):
        world = dist.get_world_size()
        for first in range(0, world, model_size):
            group = dist.new_group(list(range(first, first + model_size)))
            if first <= rank < first + model_size:
                self.model_group = group
        for column in range(model_size):
            group = dist.new_group(list(range(column, world, model_size)))
            if rank % model_size == column:
                self.data_group = group


def average(gradient, group):
    dist.all_reduce(gradient, group=group)
    gradient /= dist.get_world_size(group)


def main():
    rank, world_size = init_distributed()
    topology = Topology(rank)
    batch = rank // 2
    gradient = torch.tensor([3.0, 4.0]) * (0.5 + batch)
    if rank % 2:
        gradient = gradient.flip(0)
    average(gradient, topology.data_group)
    print(f"rank {rank} column {rank % 2} norm {gradient.norm().item():.4f}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
