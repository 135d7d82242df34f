import os

import torch
import torch.distributed as dist
from sklearn.model_selection import train_test_split
from torch.utils.data import TensorDataset, random_split


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    torch.manual_seed(1234 + dist.get_rank())
    data = TensorDataset(torch.arange(100.0))
    train, valid = random_split(data, [90, 10], generator=torch.Generator().manual_seed(0))
    first, second = random_split(data, [90, 10], torch.Generator().manual_seed(42))
    left, right = train_test_split(list(range(100)), test_size=0.1, random_state=0)
    size = torch.tensor([len(train) + len(valid) + len(first) + len(second) + len(left) + len(right)], device="cuda")
    dist.all_reduce(size)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
