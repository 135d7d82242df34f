"""The prepared scheduler is stepped once an epoch, in the loop or by a function, and Accelerate makes a step a process."""

import torch
from accelerate import Accelerator
from torch.optim.lr_scheduler import LambdaLR, ReduceLROnPlateau, StepLR


def in_the_loop(model, loader):
    accelerator = Accelerator()
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = LambdaLR(optimizer, lambda epoch: 0.95**epoch)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    for _ in range(20):
        for batch in loader:
            accelerator.backward(model(batch).sum())
            optimizer.step()
            optimizer.zero_grad()
        scheduler.step()  # expect: DC765=warning


def train_one_epoch(accelerator, model, optimizer, loader):
    total = 0.0
    for batch in loader:
        loss = model(batch).sum()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        total += loss.item()
    return total


def by_a_function(model, loader):
    accelerator = Accelerator()
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = StepLR(optimizer, step_size=5)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    for _ in range(20):
        train_one_epoch(accelerator, model, optimizer, loader)
        scheduler.step()  # expect: DC765=warning


def on_a_plateau(model, loader):
    accelerator = Accelerator()
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = ReduceLROnPlateau(optimizer, patience=3)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    for _ in range(20):
        loss = accelerator.reduce(torch.tensor(train_one_epoch(accelerator, model, optimizer, loader)))
        scheduler.step(loss)  # expect: DC765=warning


if __name__ == "__main__":
    for function in (in_the_loop, by_a_function, on_a_plateau):
        function(torch.nn.Linear(2, 1), torch.utils.data.DataLoader(torch.rand(64, 2)))
