"""A second group on gloo for what lives on the CPU."""
import os

import torch
import torch.distributed as dist


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    host_group = dist.new_group(backend="gloo")
    total = torch.tensor(3.0)
    dist.all_reduce(total, group=host_group)
    names = [None] * dist.get_world_size()
    dist.all_gather_object(names, os.uname().nodename)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
