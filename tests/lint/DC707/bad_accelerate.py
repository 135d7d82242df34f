import torch
from accelerate import Accelerator


def train(model: torch.nn.Module, batches: list, optimizer: torch.optim.Optimizer) -> None:
    accelerator = Accelerator()
    model, optimizer = accelerator.prepare(model, optimizer)
    best = float("inf")
    for batch in batches:
        loss = model(batch).mean()
        accelerator.backward(loss)
        optimizer.step()
        if loss > best * 2:
            break  # expect: DC707
        best = min(best, loss.item())
