import os

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def gather_uneven(tensor):
    world_size = dist.get_world_size()
    size = torch.tensor([len(tensor)])
    sizes = [torch.empty_like(size) for _ in range(world_size)]
    dist.all_gather(sizes, size)
    longest = max(int(s) for s in sizes)
    padded = tensor.new_zeros(longest)
    padded[: len(tensor)] = tensor
    parts = [torch.empty_like(padded) for _ in range(world_size)]
    dist.all_gather(parts, padded)
    return torch.cat([part[: int(s)] for part, s in zip(parts, sizes)])


def main():
    rank, _ = init_distributed()
    mine = torch.arange(3 + rank, dtype=torch.float)
    everything = gather_uneven(mine)
    assert len(everything) == 7
    print(f"rank {rank}: {everything.tolist()}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
