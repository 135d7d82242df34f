"""The scheduler makes a step with the optimizer, after gradients of several parts of a batch; or it changes nothing."""

import torch
from accelerate import Accelerator
from torch.optim.lr_scheduler import ConstantLR, CosineAnnealingLR


def in_parts(model, loader):
    accelerator = Accelerator()
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = CosineAnnealingLR(optimizer, 20 * len(loader))
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    for _ in range(20):
        for batch in loader:
            for part in batch.chunk(4):
                accelerator.backward(model(part).sum())
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()


def constant(model, loader):
    accelerator = Accelerator()
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = ConstantLR(optimizer, factor=1.0)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    for _ in range(20):
        for batch in loader:
            accelerator.backward(model(batch).sum())
            optimizer.step()
            optimizer.zero_grad()
        scheduler.step()


if __name__ == "__main__":
    for function in (in_parts, constant):
        function(torch.nn.Linear(2, 1), torch.utils.data.DataLoader(torch.rand(64, 2)))
