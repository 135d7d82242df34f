import torch
from accelerate import Accelerator


def after(accelerator, model, optimizer, x, y):
    with accelerator.accumulate(model):
        accelerator.backward(torch.nn.functional.mse_loss(model(x), y))
        optimizer.step()
        optimizer.zero_grad()


def before_the_context(accelerator, model, optimizer, x, y):
    # the batch before has ended an accumulation, or this call is ignored
    optimizer.zero_grad()
    with accelerator.accumulate(model):
        accelerator.backward(torch.nn.functional.mse_loss(model(x), y))
        optimizer.step()


def two_losses(accelerator, model, first, second, x, y):
    with accelerator.accumulate(model):
        accelerator.backward(torch.nn.functional.mse_loss(model(x), y))
        first.step()
        first.zero_grad()
        accelerator.backward(torch.nn.functional.l1_loss(model(x), y))
        second.step()
        second.zero_grad()


def main(loader):
    accelerator = Accelerator(gradient_accumulation_steps=4)
    model = torch.nn.Linear(8, 8)
    first = torch.optim.Adam([model.weight], lr=1e-4)
    second = torch.optim.Adam([model.bias], lr=1e-4)
    model, first, second, loader = accelerator.prepare(model, first, second, loader)
    for x, y in loader:
        after(accelerator, model, first, x, y)
        before_the_context(accelerator, model, first, x, y)
        two_losses(accelerator, model, first, second, x, y)
