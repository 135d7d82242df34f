"""The Accelerator gets the model, and not the loader."""

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset


def main(epochs: int) -> None:
    accelerator = Accelerator()
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = TensorDataset(torch.load("samples.pt", map_location="cpu"))
    loader = DataLoader(data, batch_size=2, shuffle=True)  # expect: DC732=warning
    model, optimizer = accelerator.prepare(model, optimizer)
    for _ in range(epochs):
        for (batch,) in loader:
            optimizer.zero_grad()
            accelerator.backward(model(batch.to(accelerator.device)).sum())
            optimizer.step()


if __name__ == "__main__":
    main(2)
