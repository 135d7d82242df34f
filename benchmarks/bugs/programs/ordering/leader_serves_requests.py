import os

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def add_all(values):
    dist.all_reduce(values)
    return values


def keep_best(values):
    dist.all_reduce(values, op=dist.ReduceOp.MAX)
    return values
COMMANDS = {"add": add_all, "best": keep_best}


def lead(names):
    for name in names:
        dist.broadcast_object_list([name], src=0)
        print(name, COMMANDS[name](torch.tensor([1.0])).item())
    dist.broadcast_object_list(["stop"], src=0)


def follow(rank):
    while True:
        command = [None]
        dist.broadcast_object_list(command, src=0)
        if command[0] == "stop":
            return
        COMMANDS[command[0]](torch.tensor([float(rank)]))


def main():
    rank, _ = init_distributed()
    if rank == 0:
        lead(["add", "best", "add"])
    else:
        follow(rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
