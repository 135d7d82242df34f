import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


@torch.no_grad()
def evaluate(model, loader):
    total = torch.zeros(1, device="cuda")
    for (batch,) in loader:
        total += model(batch.cuda()).sum()
    dist.all_reduce(total)
    return total.item()


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    data = TensorDataset(torch.randn(1000, 8))
    loader = DataLoader(data, batch_size=32, sampler=DistributedSampler(data))
    for width in (1, 2, 3):
        evaluate(torch.nn.Linear(8, width).cuda(), loader)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
