import torch
import torch.distributed as dist


class Groups:
    def __init__(self, size: int) -> None:
        rank, world_size = dist.get_rank(), dist.get_world_size()
        self.mine = None
        for first in range(0, world_size, size):
            ranks = list(range(first, first + size))
            group = dist.new_group(ranks)
            if rank in ranks:
                self.mine = group
        columns = [list(range(column, world_size, size)) for column in range(size)]
        groups = [dist.new_group(column) for column in columns]
        self.column = groups[rank % size]


def main() -> None:
    dist.init_process_group("gloo")
    low, high = dist.new_group([0, 1]), dist.new_group([2, 3])
    group = low if dist.get_rank() < 2 else high
    dist.all_reduce(torch.ones(1), group=group)
    dist.all_reduce(torch.ones(1), group=Groups(2).mine)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
