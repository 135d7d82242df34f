"""The mean of the loss over all ranks, taken from what the call returns."""
import os

import torch
import torch.distributed as dist


def mean_loss(loss):
    return dist.all_reduce(loss) / dist.get_world_size()  # expect: DC710


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    loss = torch.rand(1, device="cuda")
    print(mean_loss(loss))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
