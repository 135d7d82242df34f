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
    loss = torch.tensor([2.0 if rank == 0 else 4.0])
    dist.reduce(loss, dst=0)
    loss /= world_size
    print(f"rank {rank} loss {loss.item()}")
    lr = 0.1 if loss.item() > 2.5 else 0.01
    print(f"rank {rank} continues with lr={lr}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
