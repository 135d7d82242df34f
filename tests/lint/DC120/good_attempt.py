"""An attempt that may fail."""
import os

import torch
import torch.distributed as dist


def meet():
    try:
        dist.monitored_barrier()
    except (RuntimeError, ValueError):
        dist.barrier()


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    meet()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
