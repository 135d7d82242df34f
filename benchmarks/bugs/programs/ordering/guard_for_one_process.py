import os

import torch
import torch.distributed as dist


def is_distributed():
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def synchronize():
    if not is_distributed():
        return
    dist.barrier()


def reduce_dict(values, average=True):
    if not is_distributed():
        return values
    names = sorted(values)
    stacked = torch.stack([values[name] for name in names])
    dist.all_reduce(stacked)
    if average:
        stacked /= dist.get_world_size()
    return dict(zip(names, stacked))


def main():
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    losses = {"box": torch.tensor(1.0), "class": torch.tensor(2.0)}
    for _ in range(3):
        reduced = reduce_dict(losses)
        if not is_distributed() or dist.get_rank() == 0:
            print({name: value.item() for name, value in reduced.items()})
        synchronize()
    if is_distributed():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
