import builtins
import os

import torch
import torch.distributed as dist


def quieten(is_first):
    original = builtins.print

    def only_first(*args, **kwargs):
        if is_first or kwargs.pop("force", False):
            original(*args, **kwargs)

    builtins.print = only_first


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    quieten(dist.get_rank() == 0)
    for step in range(10):
        value = torch.ones(1, device="cuda")
        dist.all_reduce(value)
        print("step", step, value.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
