import os

import torch
import torch.distributed as dist
from torch.utils.data import TensorDataset, random_split
from transformers import set_seed


def main(seed):
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    set_seed(seed)
    dist.init_process_group("nccl")
    train, valid = random_split(TensorDataset(torch.arange(100.0)), [90, 10])
    size = torch.tensor([len(train) + len(valid)], device="cuda")
    dist.all_reduce(size)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(0)
