import os

import torch.distributed as dist


def start():
    try:
        rank = int(os.environ["RANK"])
        world_size = int(os.environ["WORLD_SIZE"])
        dist.init_process_group("gloo", rank=rank, world_size=world_size)
    except KeyError:
        # no launcher
        rank, world_size = 0, 1
    return rank, world_size


if __name__ == "__main__":
    print(start())
