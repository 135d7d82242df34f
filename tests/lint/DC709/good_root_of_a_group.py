"""The number of a rank in a group becomes its number in the job: the same on all ranks of the group."""

import torch.distributed as dist
from torch.distributed import distributed_c10d


def first_of(values: list, group: dist.ProcessGroup | None = None, src: int = 0) -> list:
    root = distributed_c10d.get_global_rank(group or distributed_c10d.GroupMember.WORLD, src)
    dist.broadcast_object_list(values, src=root)
    return values


if __name__ == "__main__":
    dist.init_process_group("gloo")
    first_of([1])
    dist.broadcast_object_list([1], src=dist.get_global_rank(dist.group.WORLD, 0))
    dist.destroy_process_group()
