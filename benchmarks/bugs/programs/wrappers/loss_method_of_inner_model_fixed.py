import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


class Net(nn.Module):
    def __init__(self, features=8, hidden=16, classes=4):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, hidden), nn.ReLU())
        self.head = nn.Linear(hidden, classes)

    def forward(self, x):
        return self.head(self.body(x))


class Classifier(Net):
    def training_step(self, batch):
        x, y = batch
        return F.cross_entropy(self(x), y)

    def forward(self, x, y=None):
        logits = super().forward(x)
        return logits if y is None else F.cross_entropy(logits, y)


class Trainer:
    def __init__(self, model):
        self.model = DDP(model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def unwrap(self):
        return self.model.module

    def fit(self, batches):
        for batch in batches:
            loss = self.model(*batch)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


def main():
    rank, _ = init_distributed()
    torch.manual_seed(0)
    trainer = Trainer(Classifier())
    torch.manual_seed(rank + 1)
    trainer.fit([(torch.randn(4, 8), torch.randint(4, (4,))) for _ in range(3)])


if __name__ == "__main__":
    main()
    dist.destroy_process_group()
