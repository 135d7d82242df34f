import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset


@torch.no_grad()
def evaluate(model, loader):
    return sum(model(batch.cuda()).sum().item() for (batch,) in loader)


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    if dist.get_rank() == 0:
        evaluate(torch.nn.Linear(8, 1).cuda(), DataLoader(TensorDataset(torch.randn(101, 8)), batch_size=8))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
