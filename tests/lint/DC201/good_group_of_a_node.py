"""The rank within a group of one node is an index on that node."""

import os

import torch
import torch.distributed as dist


def node_group(per_node):
    mine = None
    for start in range(0, dist.get_world_size(), per_node):
        members = list(range(start, start + per_node))
        group = dist.new_group(members)
        if dist.get_rank() in members:
            mine = group
    return mine


def main():
    dist.init_process_group("gloo")
    group = node_group(int(os.environ["LOCAL_WORLD_SIZE"]))
    index = dist.get_rank(group=group)
    torch.cuda.set_device(index)
    print(torch.ones(1, device=f"cuda:{index}"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
