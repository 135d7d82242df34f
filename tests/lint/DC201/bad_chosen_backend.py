"""Which kind of device it is, is chosen at run time; its number is the rank all the same."""

import torch
import torch.distributed as dist


def devices():
    return getattr(torch, "npu") if hasattr(torch, "npu") else torch.cuda


def main():
    dist.init_process_group("gloo")
    devices().set_device(dist.get_rank())  # expect: DC201=info
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
