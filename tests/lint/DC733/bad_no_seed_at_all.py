import os

import torch
import torch.distributed as dist
from torch.utils.data import TensorDataset, random_split


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    # torch seeds the default generator of each process with a random number
    train, valid = random_split(TensorDataset(torch.arange(100.0)), [90, 10])  # expect: DC733
    size = torch.tensor([len(train) + len(valid)], device="cuda")
    dist.all_reduce(size)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
