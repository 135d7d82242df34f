"""Each half of the ranks broadcasts from its first rank, but names it by its place in the half."""

import torch
import torch.distributed as dist


def halves():
    size = dist.get_world_size()
    return [dist.new_group(list(range(start, size, 2))) for start in (0, 1)]


def main():
    dist.init_process_group("gloo")
    mine = halves()[dist.get_rank() % 2]
    table = torch.zeros(4)
    dist.broadcast(table, src=0, group=mine)  # expect: DC715
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
