import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset


class Pairs(Dataset):
    def __init__(self, count):
        self.pairs = torch.randn(count, 2, 8)

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, index):
        return self.pairs[index, 0], self.pairs[index, 1]


class Trainer:
    def __init__(self, local_rank):
        self.model = DDP(torch.nn.Linear(8, 8).cuda(), device_ids=[local_rank])
        self.train_loader = DataLoader(Pairs(1000), batch_size=16, shuffle=True, num_workers=2)  # expect: DC732=error

    def fit(self, epochs):
        for _ in range(epochs):
            for left, right in self.train_loader:
                loss = (self.model(left.cuda()) - right.cuda()).square().mean()
                loss.backward()


if __name__ == "__main__":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    Trainer(int(os.environ["LOCAL_RANK"])).fit(3)
    dist.destroy_process_group()
