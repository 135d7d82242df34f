import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Points(Dataset):
    def __init__(self, size, seed):
        generator = torch.Generator().manual_seed(seed)
        self.points = torch.randn(size, 2, generator=generator) * 3
        self.labels = (self.points.sum(dim=1) > 0).long()

    def __len__(self):
        return len(self.points)

    def __getitem__(self, index):
        return self.points[index], self.labels[index]


def all_gather(tensor):
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, tensor)
    return parts


def train(model, loader, epochs, lr):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for epoch in range(epochs):
        loader.sampler.set_epoch(epoch)
        for points, labels in loader:
            loss = nn.functional.cross_entropy(model(points), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        scheduler.step()


@torch.no_grad()
def predict(model, loader):
    """Return the predictions of the whole data set on each rank."""
    predictions = torch.cat([model(points).argmax(dim=1) for points, _ in loader])
    parts = all_gather(predictions)
    return torch.cat(parts)[: len(loader.dataset)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.5)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    train_set, test_set = Points(64, seed=1), Points(24, seed=2)
    train_loader = DataLoader(train_set, args.batch_size, sampler=DistributedSampler(train_set))
    test_loader = DataLoader(test_set, args.batch_size, sampler=DistributedSampler(test_set, shuffle=False))
    model = DDP(nn.Linear(2, 2))
    train(model, train_loader, args.epochs, args.lr)
    predictions = predict(model.module.eval(), test_loader)
    accuracy = (predictions == test_set.labels).float().mean().item()
    if dist.get_rank() == 0:
        print(f"accuracy {accuracy:.4f}")
    del model
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
