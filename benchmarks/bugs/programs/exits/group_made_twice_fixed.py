import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Net(nn.Module):
    def __init__(self, features=8, hidden=16, classes=4):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, hidden), nn.ReLU())
        self.head = nn.Linear(hidden, classes)

    def forward(self, x):
        return self.head(self.body(x))


class Trainer:
    def __init__(self, model):
        if not dist.is_initialized():
            dist.init_process_group("gloo")
        self.model = DDP(model)

    def step(self, batch):
        self.model(batch).square().mean().backward()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    trainer = Trainer(Net())
    trainer.step(torch.randn(4, 8))
    print(f"rank {dist.get_rank()} done")


if __name__ == "__main__":
    main()
    dist.destroy_process_group()
