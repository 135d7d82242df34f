"""Loaders that Fabric does not divide, one device, and a mean over all ranks."""

import torch
from lightning.fabric import Fabric
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __iter__(self):
        yield from torch.randn(8, 2, 4)


def validate(model, loader):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for batch, label in loader:
            total += torch.nn.functional.mse_loss(model(batch), label).item()
    return total / len(loader)


def over_all_ranks(model, loader, fabric):
    model.eval()
    total = torch.zeros(1)
    with torch.no_grad():
        for batch, label in loader:
            total += torch.nn.functional.mse_loss(model(batch), label)
    return fabric.all_reduce(total / len(loader)).item()


def run(fabric, held_back, epochs):
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model, optimizer = fabric.setup(model, optimizer)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    for _ in range(epochs):
        # the same data on every rank
        rest = fabric.setup_dataloaders(DataLoader(held_back), use_distributed_sampler=False)
        schedule.step(validate(model, rest))


def stream(fabric, epochs):
    model = fabric.setup(torch.nn.Linear(4, 4))
    for _ in range(epochs):
        # Fabric leaves an iterable data set as it is
        loss = validate(model, fabric.setup_dataloaders(DataLoader(Stream())))
        fabric.print(loss)


def reduced(fabric, held_back, epochs):
    model = fabric.setup(torch.nn.Linear(4, 4))
    for _ in range(epochs):
        fabric.print(over_all_ranks(model, fabric.setup_dataloaders(DataLoader(held_back)), fabric))


def single(held_back):
    alone = Fabric(devices=1)
    model = alone.setup(torch.nn.Linear(4, 4))
    alone.print(validate(model, alone.setup_dataloaders(DataLoader(held_back))))


if __name__ == "__main__":
    fabric = Fabric(devices=2)
    fabric.launch()
    run(fabric, [], 3)
    stream(fabric, 3)
    reduced(fabric, [], 3)
    single([])
