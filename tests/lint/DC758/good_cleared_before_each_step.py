import torch
from accelerate import Accelerator


def main(loader):
    accelerator = Accelerator()
    single = Accelerator(gradient_accumulation_steps=1)
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for x, y in loader:
        for one in (accelerator, single):
            with one.accumulate(model):
                optimizer.zero_grad()
                one.backward(torch.nn.functional.mse_loss(model(x), y))
                optimizer.step()
