"""Masked in a function, indexed in another one."""

import os

import torch
import torch.distributed as dist


def hide_others(local_rank):
    os.environ["CUDA_VISIBLE_DEVICES"] = f"{local_rank}"


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    hide_others(local_rank)
    device = torch.device(f"cuda:{local_rank}")  # expect: DC202
    dist.init_process_group("nccl", device_id=device)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
