import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim.lr_scheduler import ReduceLROnPlateau
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def make_data(size, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(size, 6, generator=generator)
    noise = torch.randn(size, 1, generator=generator)
    return TensorDataset(x, x.sum(dim=1, keepdim=True) + noise)


def make_loader(dataset, batch_size, shuffle):
    sampler = DistributedSampler(dataset, shuffle=shuffle)
    return DataLoader(dataset, batch_size=batch_size, sampler=sampler), sampler


@torch.no_grad()
def validate(model, loader):
    """The mean loss over the validation set."""
    model.eval()
    total = torch.zeros(2)
    for x, y in loader:
        error = (model(x) - y).square()
        total += torch.tensor([error.sum().item(), float(len(x))])
    dist.reduce(total, dst=0)
    model.train()
    return (total[0] / total[1]).item()


def train_epoch(model, loader, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--lr", type=float, default=0.2)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(5)
    model = DDP(nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    scheduler = ReduceLROnPlateau(optimizer, factor=0.5, patience=0, threshold=0.05)
    loader, sampler = make_loader(make_data(64, 1), 8, shuffle=True)
    validation, _ = make_loader(make_data(32, 2), 8, shuffle=False)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        train_epoch(model, loader, optimizer)
        loss = validate(model, validation)
        scheduler.step(loss)
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: validation {loss:.4f}, lr {optimizer.param_groups[0]['lr']:g}")
    del model
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
