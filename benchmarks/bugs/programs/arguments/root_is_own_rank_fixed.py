import os

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


class Model:
    def __init__(self, rank):
        self.layers = [torch.arange(8, dtype=torch.float) * (1 if rank == 0 else -1) for _ in range(1)]

    def synchronize(self, rank):
        for layer in self.layers:
            dist.broadcast(layer, src=0)


def main():
    rank, _ = init_distributed()
    model = Model(rank)
    model.synchronize(rank)
    print(f"rank {rank} weights {sum(layer.sum().item() for layer in model.layers)}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
