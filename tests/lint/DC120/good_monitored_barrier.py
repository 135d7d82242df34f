"""Gloo has it."""
import os

import torch
import torch.distributed as dist


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    on_host = dist.new_group(backend="gloo")
    dist.monitored_barrier(on_host)
    dist.monitored_barrier(group=on_host)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
