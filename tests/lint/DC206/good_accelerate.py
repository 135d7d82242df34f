"""Accelerate binds the device."""

import torch.distributed as dist
from accelerate import Accelerator


def main():
    accelerator = Accelerator()
    if not dist.is_initialized():
        dist.init_process_group("nccl")
    accelerator.wait_for_everyone()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
