import os

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def main():
    rank, _ = init_distributed()
    if rank == 0:
        values = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)
        dist.send(values, dst=1)
    else:
        buffer = torch.zeros(6)
        dist.recv(buffer, src=0)
        print(f"sum {buffer.sum().item()}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
