import os

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def reduce_mean(value):
    tensor = torch.tensor([float(value)])
    dist.all_reduce(tensor, op=dist.ReduceOp.SUM)
    return tensor.item() / dist.get_world_size()


class Logger:
    def __init__(self, every=2):
        self.every = every

    def scalar(self, name, value, step):
        average = reduce_mean(value)
        print(f"[{step}] {name}: {average:.3f}")


def main():
    rank, _ = init_distributed()
    logger = Logger()
    weights = torch.zeros(4)
    for step in range(6):
        weights += torch.randn(4)
        dist.broadcast(weights, src=0)
        if rank == 0 and step % logger.every == 0:
            logger.scalar("norm", weights.norm(), step)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
