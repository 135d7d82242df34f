import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--num_train_epochs", type=float, default=3.0)
    args = parser.parse_args()
    args.local_rank = int(os.environ.get("LOCAL_RANK", -1))
    device = torch.device("cuda", args.local_rank if args.local_rank != -1 else 0)
    torch.cuda.set_device(device)
    if args.local_rank != -1:
        dist.init_process_group(backend="nccl")
    data = TensorDataset(torch.randn(1000, 8))
    sampler = RandomSampler(data) if args.local_rank == -1 else DistributedSampler(data)  # expect: DC730
    loader = DataLoader(data, sampler=sampler, batch_size=8)
    model = torch.nn.Linear(8, 1).to(device)
    if args.local_rank != -1:
        model = DDP(model, device_ids=[args.local_rank])
    for _ in range(int(args.num_train_epochs)):
        for (batch,) in loader:
            model(batch.to(device)).sum().backward()


if __name__ == "__main__":
    main()
