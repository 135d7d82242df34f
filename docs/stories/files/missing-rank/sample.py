"""Draws one sample a GPU. Written for eight of them, and so it joins the group before anything else."""

import os

import torch
import torch.distributed as dist


def main():
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    sample = torch.randn(3, 64, 64)
    torch.save(sample, f"sample-{rank}.pt")
    if rank == 0:
        print(f"{ranks} ranks draw a sample each")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
