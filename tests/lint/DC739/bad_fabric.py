"""Fabric divides both loaders, and each rank steps its schedule by the part that it has evaluated."""

import torch
from lightning.fabric import Fabric
from torch.utils.data import DataLoader


def validate(model, loader):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for batch, label in loader:
            total += torch.nn.functional.mse_loss(model(batch), label).item()
    return {"loss": total / len(loader)}


def run(fabric, train_data, held_back, epochs):
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model, optimizer = fabric.setup(model, optimizer)
    loader, rest = fabric.setup_dataloaders(DataLoader(train_data, shuffle=True), DataLoader(held_back))
    for epoch in range(epochs):
        record = {"epoch": epoch}
        for batch, label in loader:
            loss = torch.nn.functional.mse_loss(model(batch), label)
            optimizer.zero_grad()
            fabric.backward(loss)
            optimizer.step()
        record.update(validate(model, rest))
        if fabric.is_global_zero:
            print(record)  # expect: DC739=info


def plateau(fabric, train_data, held_back, epochs):
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model, optimizer = fabric.setup(model, optimizer)
    loader = fabric.setup_dataloaders(DataLoader(train_data, shuffle=True))
    rest = fabric.setup_dataloaders(DataLoader(held_back))
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    for _ in range(epochs):
        for batch, label in loader:
            loss = torch.nn.functional.mse_loss(model(batch), label)
            optimizer.zero_grad()
            fabric.backward(loss)
            optimizer.step()
        schedule.step(validate(model, rest)["loss"])  # expect: DC739=info


def logs(fabric, held_back):
    model = fabric.setup(torch.nn.Linear(4, 4))
    fabric.log_dict(validate(model, fabric.setup_dataloaders(DataLoader(held_back))))  # expect: DC739=info


if __name__ == "__main__":
    fabric = Fabric(devices=2)
    fabric.launch()
    run(fabric, [], [], 3)
    plateau(fabric, [], [], 3)
    logs(fabric, [])
