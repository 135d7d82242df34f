import os

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def dispatch(tokens, owner, rank, world_size):
    requests = []
    for peer in range(world_size):
        part = tokens[owner == peer]
        requests.append(dist.isend(torch.tensor([float(len(part))]), dst=peer))
    counts = [torch.zeros(1) for _ in range(world_size)]
    for peer in range(world_size):
        if peer != rank:
            dist.recv(counts[peer], src=peer)
    for request in requests:
        request.wait()
    return counts


def main():
    rank, world_size = init_distributed()
    tokens = torch.randn(6, 4)
    owner = torch.tensor([0, 1, 2, 0, 1, 2])
    counts = dispatch(tokens, owner, rank, world_size)
    print(f"rank {rank}: {[int(c) for c in counts]}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
