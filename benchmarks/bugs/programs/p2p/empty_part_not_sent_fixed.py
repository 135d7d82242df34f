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
    peer = 1 - rank
    tokens = torch.arange(4, dtype=torch.float)
    for step in range(3):
        chosen = tokens[tokens > (1.0 if rank == 0 else 1.5 * step)]
        request = dist.isend(torch.tensor([chosen.sum()]), dst=peer)
        total = torch.zeros(1)
        dist.recv(total, src=peer)
        request.wait()
        print(f"rank {rank} step {step}: {total.item()}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
