"""A step for each epoch, with a scheduler that is not prepared or counts the processes; or a step for each batch."""

import torch
from accelerate import Accelerator
from torch.optim.lr_scheduler import CosineAnnealingLR, StepLR


def epoch(accelerator, model, optimizer, loader):
    for batch in loader:
        accelerator.backward(model(batch).sum())
        optimizer.step()
        optimizer.zero_grad()


def not_prepared(model, loader):
    accelerator = Accelerator()
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = StepLR(optimizer, step_size=5)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for _ in range(20):
        epoch(accelerator, model, optimizer, loader)
        scheduler.step()


def not_with_the_optimizer(model, loader):
    accelerator = Accelerator(step_scheduler_with_optimizer=False)
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = StepLR(optimizer, step_size=5)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    for _ in range(20):
        epoch(accelerator, model, optimizer, loader)
        scheduler.step()


def counted(model, loader):
    accelerator = Accelerator()
    optimizer = torch.optim.AdamW(model.parameters())
    length = 20 * accelerator.num_processes
    scheduler = CosineAnnealingLR(optimizer, T_max=length)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    for _ in range(20):
        epoch(accelerator, model, optimizer, loader)
        scheduler.step()


def of_batches(model, loader):
    accelerator = Accelerator()
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = CosineAnnealingLR(optimizer, T_max=20 * len(loader))
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    for _ in range(20):
        for batch in loader:
            accelerator.backward(model(batch).sum())
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()


def of_parts_of_batches(model, loader):
    accelerator = Accelerator()
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = CosineAnnealingLR(optimizer, T_max=20 * len(loader))
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    for batch in loader:
        for part in range(4):
            accelerator.backward(model(batch[part]).sum())
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    for function in (not_prepared, not_with_the_optimizer, counted, of_batches, of_parts_of_batches):
        function(torch.nn.Linear(2, 1), torch.utils.data.DataLoader(torch.rand(64, 2)))
