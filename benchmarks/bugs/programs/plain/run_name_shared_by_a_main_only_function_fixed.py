import functools
import time

import torch
import torch.distributed as dist


def rank_zero_only(function):
    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        if dist.get_rank() == 0:
            return function(*args, **kwargs)
        return None

    return wrapped


class Experiment:
    def __init__(self, base):
        self.base = base
        self.name = None

    def share_name(self):
        holder = [self.name]
        dist.broadcast_object_list(holder, src=0)
        self.name = holder[0]

    @rank_zero_only
    def begin(self):
        self.name = f"{self.base}-{int(time.time())}"
        print(f"run {self.name}")


def main():
    dist.init_process_group("gloo")
    experiment = Experiment("baseline")
    experiment.begin()
    experiment.share_name()
    loss = torch.ones(1)
    dist.all_reduce(loss)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
