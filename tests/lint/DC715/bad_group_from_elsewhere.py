"""The group comes from an attribute, a parameter, a helper, another scope; it is without rank 0 each time."""

import torch
import torch.distributed as dist


class Pair:
    def __init__(self):
        self.group = dist.new_group([2, 3])

    def share(self, tensor):
        dist.broadcast(tensor, src=0, group=self.group)  # expect: DC715


def make():
    return dist.new_group([2, 3])


def returned(tensor):
    dist.broadcast(tensor, src=0, group=make())  # expect: DC715


def unpacked(tensor):
    first, second = dist.new_group([0, 1]), dist.new_group([2, 3])
    dist.broadcast(tensor, src=0, group=second)  # expect: DC715


def both():
    return dist.new_group([0, 1]), dist.new_group([2, 3])


def unpacked_from_helper(tensor):
    first, second = both()
    dist.broadcast(tensor, src=0, group=second)  # expect: DC715


def handed(tensor, group):
    dist.broadcast(tensor, src=0, group=group)  # expect: DC715


def by_name(tensor, *, group):
    dist.broadcast(tensor, src=0, group=group)  # expect: DC715


def by_default(tensor, ranks=(2, 3)):
    dist.broadcast(tensor, src=0, group=dist.new_group(ranks))  # expect: DC715


RANKS = [2, 3]


def global_ranks(tensor):
    dist.broadcast(tensor, src=0, group=dist.new_group(RANKS))  # expect: DC715


def either(tensor, wide):
    if wide:
        group = dist.new_group([2, 3])
    else:
        group = dist.new_group([4, 5])
    dist.broadcast(tensor, src=0, group=group)  # expect: DC715


def retried(tensor):
    try:
        group = dist.new_group([2, 3])
    except RuntimeError:
        group = dist.new_group([2, 3, 4])
    dist.broadcast(tensor, src=0, group=group)  # expect: DC715


def enclosed(tensor, group):
    def share():
        dist.broadcast(tensor, src=0, group=group)  # expect: DC715

    share()


def again(tensor, group, times):
    dist.broadcast(tensor, src=0, group=group)  # expect: DC715
    if times:
        again(tensor, group, times - 1)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    value = torch.ones(1)
    Pair().share(value)
    returned(value)
    unpacked(value)
    unpacked_from_helper(value)
    handed(value, dist.new_group([2, 3]))
    by_name(value, group=dist.new_group([2, 3]))
    by_default(value)
    global_ranks(value)
    either(value, dist.get_world_size() > 8)
    retried(value)
    enclosed(value, dist.new_group([2, 3]))
    again(value, dist.new_group([2, 3]), 2)
    dist.destroy_process_group()
