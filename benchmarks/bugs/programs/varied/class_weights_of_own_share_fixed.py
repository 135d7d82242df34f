import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Defects(Dataset):
    """Measurements of parts; few of them have a defect, and most of these come from one machine."""

    def __init__(self, size):
        generator = torch.Generator().manual_seed(2)
        self.x = torch.randn(size, 9, generator=generator)
        limit = torch.tensor([1.5 if index % 2 else 0.2 for index in range(size)])
        self.y = (self.x[:, 0] > limit).long()

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        return self.x[index], self.y[index]


def count_classes(loader, classes):
    counts = torch.zeros(classes)
    for _, y in loader:
        counts += torch.bincount(y, minlength=classes)
    return counts


def balanced_weights(loader, classes):
    """Rare classes weigh more in the loss."""
    counts = count_classes(loader, classes)
    dist.all_reduce(counts)
    return counts.sum() / (classes * counts.clamp(min=1))


class Trainer:
    def __init__(self, model, criterion, lr):
        self.model, self.criterion = model, criterion
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)

    def epoch(self, loader):
        total = 0.0
        for x, y in loader:
            loss = self.criterion(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.item()
        return total / len(loader)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--lr", type=float, default=1e-2)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = Defects(96)
    counting = DataLoader(data, batch_size=16, sampler=DistributedSampler(data, shuffle=False))
    weights = balanced_weights(counting, 2)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=args.batch_size, sampler=sampler)
    model = DDP(nn.Sequential(nn.Linear(9, 16), nn.ReLU(), nn.Linear(16, 2)))
    trainer = Trainer(model, nn.CrossEntropyLoss(weight=weights), args.lr)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        loss = trainer.epoch(loader)
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: loss {loss:.4f}")
    print(f"weight of a defect {weights[1].item():.4f}")
    del model, trainer
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
