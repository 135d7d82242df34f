import os

import torch
import torch.distributed as dist
from torch.utils.data import TensorDataset, random_split


def main(seed=3):
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    torch.manual_seed(seed + dist.get_rank())
    noise = torch.randn(4)
    torch.manual_seed(seed)
    train, valid = random_split(TensorDataset(torch.arange(100.0)), [90, 10])
    size = torch.tensor([len(train) + len(valid) + noise.sum()], device="cuda")
    dist.all_reduce(size)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
