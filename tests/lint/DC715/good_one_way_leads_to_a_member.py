"""One of the ways that the group comes by has rank 0, or is not seen."""

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from local_settings import *


def of_all_callers(tensor, group):
    dist.broadcast(tensor, src=0, group=group)


def either(tensor, wide):
    group = dist.new_group([2, 3])
    if wide:
        group = dist.new_group([0, 1, 2, 3])
    dist.broadcast(tensor, src=0, group=group)


def any_number(tensor, *ranks):
    dist.broadcast(tensor, src=0, group=dist.new_group(ranks))


def with_default(tensor, ranks=(2, 3)):
    dist.broadcast(tensor, src=0, group=dist.new_group(ranks))


def settled_elsewhere(tensor):
    dist.broadcast(tensor, src=0, group=dist.new_group(MEMBERS))


def worker(index, ranks):
    dist.init_process_group("gloo", rank=index, world_size=4)
    dist.broadcast(torch.ones(1), src=0, group=dist.new_group(ranks))
    dist.destroy_process_group()


def main(tensor, options):
    of_all_callers(tensor, dist.new_group([2, 3]))
    of_all_callers(tensor, dist.new_group([0, 1]))
    either(tensor, options)
    any_number(tensor, 0, 1)
    with_default(tensor)
    with_default(*options)
    settled_elsewhere(tensor)


if __name__ == "__main__":
    mp.spawn(worker, args=([0, 1],), nprocs=4)
