import torch
from accelerate import Accelerator


def main(config, loader):
    accelerator = Accelerator(gradient_accumulation_steps=config.gradient_accumulation_steps)
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for x, y in loader:
        with accelerator.accumulate(model):
            optimizer.zero_grad()  # expect: DC758=info
            loss = torch.nn.functional.mse_loss(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
