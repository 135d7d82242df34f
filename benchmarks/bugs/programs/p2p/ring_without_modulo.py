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
    block = torch.full((2,), float(rank))
    incoming = torch.empty(2)
    request = dist.isend(block, dst=(rank + 1) % world_size)
    dist.recv(incoming, src=rank - 1)
    request.wait()
    print(f"rank {rank}: {incoming.tolist()}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
