import os
import random

import numpy as np
import torch
import torch.distributed as dist
from sklearn.model_selection import train_test_split
from torch.utils.data import TensorDataset, random_split


def set_seed(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    set_seed(7)
    train, valid = random_split(TensorDataset(torch.arange(100.0)), [90, 10])
    left, right = train_test_split(np.arange(100))
    # from here on each rank has noise of its own
    set_seed(7 + dist.get_rank())
    size = torch.tensor([len(train) + len(valid) + len(left) + len(right)], device="cuda")
    dist.all_reduce(size)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
