import torch
from accelerate import Accelerator


def main(loader, steps):
    accelerator = Accelerator(gradient_accumulation_steps=steps)
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for x, y in loader:
        accelerator.backward(torch.nn.functional.mse_loss(model(x), y))  # expect: DC762
        optimizer.step()
        optimizer.zero_grad()
