import torch
from accelerate import Accelerator


def train(model: torch.nn.Module, batches: list, optimizer: torch.optim.Optimizer) -> None:
    accelerator = Accelerator()
    model, optimizer = accelerator.prepare(model, optimizer)
    for batch in batches:
        loss = model(batch).mean()
        accelerator.backward(loss)
        optimizer.step()
        worst = accelerator.gather(loss.detach().reshape(1)).max()
        if worst > 100:
            break
        if accelerator.check_trigger():
            break
