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
    files = [[1.0, 2.0], [3.0]]
    mine = files[rank] if rank < len(files) else []
    turns = torch.tensor([len(mine)])
    dist.all_reduce(turns, op=dist.ReduceOp.MAX)
    total = torch.zeros(1)
    for turn in range(turns.item()):
        value = torch.tensor([mine[turn] if turn < len(mine) else 0.0])
        dist.all_reduce(value)
        total += value
    assert total.item() == 6.0
    if rank != 0:
        dist.destroy_process_group()
        return
    print(total.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
