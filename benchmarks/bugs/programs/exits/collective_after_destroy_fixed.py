import os

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def summarize(losses):
    mean = torch.tensor(losses).mean()
    dist.all_reduce(mean)
    return mean.item()


def main():
    rank, world_size = init_distributed()
    losses = []
    for step in range(3):
        loss = torch.tensor([1.0 / (step + 1)])
        dist.all_reduce(loss)
        losses.append(loss.item() / world_size)
    total = summarize(losses)
    if rank == 0:
        print(f"mean {total:.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
