import os

import torch
import torch.distributed as dist
from torch.utils.data import TensorDataset, random_split


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    # other noise on each rank
    torch.manual_seed(1234 + dist.get_rank())
    data = TensorDataset(torch.arange(100.0))
    train, valid = random_split(data, [90, 10])  # expect: DC733
    size = torch.tensor([len(train) + len(valid)], device="cuda")
    dist.all_reduce(size)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
