"""The sampler balances classes and knows of no other ranks."""
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Sampler, TensorDataset


class Balanced(Sampler):
    def __init__(self, labels):
        counts = torch.bincount(labels)
        self.weights = 1.0 / counts[labels]

    def __iter__(self):
        return iter(torch.multinomial(self.weights, len(self.weights), replacement=True).tolist())

    def __len__(self):
        return len(self.weights)


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    labels = torch.randint(0, 4, (1024,))
    data = TensorDataset(torch.randn(1024, 8), labels)
    loader = DataLoader(data, batch_size=32, sampler=Balanced(labels))  # expect: DC732=warning
    model = DDP(torch.nn.Linear(8, 4).cuda(), device_ids=[local_rank])
    for batch, target in loader:
        torch.nn.functional.cross_entropy(model(batch.cuda()), target.cuda()).backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
