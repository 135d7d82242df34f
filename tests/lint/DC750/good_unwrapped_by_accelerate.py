"""The loss comes from the prepared model: what is unwrapped gives a size, a target without gradients, or is saved."""

import torch
from accelerate import Accelerator


def main(loader):
    accelerator = Accelerator()
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for batch in loader:
        scale = accelerator.unwrap_model(model)[0].weight.size(0)
        loss = model(batch).mean() * scale
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    torch.save(accelerator.unwrap_model(model).state_dict(), "last.pt") if accelerator.is_main_process else None


def distilled(loader):
    accelerator = Accelerator()
    model, teacher = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, teacher, optimizer, loader = accelerator.prepare(model, teacher, optimizer, loader)
    for batch in loader:
        with torch.no_grad():
            target = accelerator.unwrap_model(teacher)(batch)
        accelerator.backward((model(batch) - target).mean())
        optimizer.step()
        optimizer.zero_grad()


def through_the_wrapper_as_well(loader):
    accelerator = Accelerator()
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for batch in loader:
        penalty = accelerator.unwrap_model(model)(torch.zeros_like(batch)).sum()
        accelerator.backward(model(batch).mean() + penalty)
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    for function in (main, distilled, through_the_wrapper_as_well):
        function(torch.utils.data.DataLoader(torch.rand(64, 2)))
