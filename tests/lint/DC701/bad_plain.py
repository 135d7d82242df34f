"""The loss is averaged by the rank that prints it, and by nobody else."""

import os

import torch
import torch.distributed as dist


def train(steps: int) -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    device = torch.device("cuda", local_rank)
    for step in range(steps):
        loss = torch.rand(1, device=device)
        if rank == 0:
            dist.all_reduce(loss)  # expect: DC701
            loss /= dist.get_world_size()
            print(step, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    train(100)
