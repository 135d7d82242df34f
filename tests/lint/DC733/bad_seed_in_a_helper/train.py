import argparse
import os

import torch
import torch.distributed as dist
from seeding import seed_everything
from torch.utils import data


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    seed_everything(args.seed + dist.get_rank())
    everything = data.TensorDataset(torch.arange(100.0))
    train, valid = data.random_split(everything, (0.9, 0.1))  # expect: DC733
    size = torch.tensor([len(train) + len(valid)], device="cuda")
    dist.all_reduce(size)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
