"""The device gets a name; where it is made is where it has to change."""

import os

import torch
import torch.distributed as dist

local_rank = int(os.environ["LOCAL_RANK"])


def main():
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    device = torch.device("cuda:0")  # expect: DC216
    model = torch.nn.Linear(4, 4).to(device)
    print(model(torch.ones(1, 4, device=device)))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
