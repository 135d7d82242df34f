"""The default device decides where new tensors are."""
import os

import torch
import torch.distributed as dist


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.set_default_device("cuda")
    dist.init_process_group("nccl")
    total = torch.tensor(3.0)
    dist.all_reduce(total)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
