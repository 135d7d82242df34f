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
    batches = list(torch.arange(20, dtype=torch.float).tensor_split(3))
    if rank == 0:
        for batch in batches:
            dist.send(batch, dst=1)
    else:
        total = 0.0
        for _ in range(3):
            buffer = torch.empty(6)
            dist.recv(buffer, src=0)
            total += buffer.sum().item()
        print(f"total {total}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
