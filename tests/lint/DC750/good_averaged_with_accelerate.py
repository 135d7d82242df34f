"""The gradients of the unwrapped model are averaged with Accelerator.reduce()."""

import torch
from accelerate import Accelerator


def main(loader):
    accelerator = Accelerator()
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    inner = accelerator.unwrap_model(model)
    for batch in loader:
        accelerator.backward(inner(batch).mean())
        for parameter in inner.parameters():
            parameter.grad = accelerator.reduce(parameter.grad, "mean")
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main(torch.utils.data.DataLoader(torch.rand(64, 2)))
