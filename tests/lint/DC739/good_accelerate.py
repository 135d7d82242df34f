"""The losses of all ranks are gathered before the main process logs their mean."""

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader


def main(train_data, held_back, epochs):
    accelerator = Accelerator(log_with="wandb")
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model, optimizer, loader, evaluation = accelerator.prepare(
        model, optimizer, DataLoader(train_data, batch_size=4), DataLoader(held_back, batch_size=4)
    )
    for epoch in range(epochs):
        for batch, label in loader:
            loss = torch.nn.functional.cross_entropy(model(batch), label)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        total = 0.0
        with torch.no_grad():
            for batch, label in evaluation:
                loss = torch.nn.functional.cross_entropy(model(batch), label)
                total += accelerator.gather_for_metrics(loss).mean().item()
        accelerator.log({"loss": total / len(evaluation)}, step=epoch)


if __name__ == "__main__":
    main([], [], 3)
