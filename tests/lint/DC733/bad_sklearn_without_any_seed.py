import os

import numpy as np
import torch
import torch.distributed as dist
from sklearn.model_selection import train_test_split


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    # numpy starts from another state in each process
    train, valid = train_test_split(np.arange(100), test_size=0.1)  # expect: DC733
    size = torch.tensor([len(train) + len(valid)], device="cuda")
    dist.all_reduce(size)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
