"""A training script, as far as starting is concerned."""

import os

import torch
import torch.distributed as dist


def main():
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if cuda else "gloo")
    total = torch.ones(1, device="cuda" if cuda else "cpu")
    dist.all_reduce(total)
    if dist.get_rank() == 0:
        print(f"{int(total)} ranks have joined")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
