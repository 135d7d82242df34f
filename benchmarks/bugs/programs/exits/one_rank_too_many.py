import os

import torch
import torch.distributed as dist
SETTINGS = {"nodes": 1, "ranks_per_node": 3}


def main():
    rank = int(os.environ["RANK"])
    world_size = SETTINGS["nodes"] * SETTINGS["ranks_per_node"]
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    value = torch.tensor([float(rank)])
    dist.all_reduce(value)
    print(f"rank {rank}: {value.item()}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
