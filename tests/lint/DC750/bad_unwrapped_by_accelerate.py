"""The loss comes from the module that unwrap_model() returned, although the model was prepared."""

import torch
from accelerate import Accelerator


def main(loader):
    accelerator = Accelerator()
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    head = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
    model, head, optimizer, loader = accelerator.prepare(model, head, optimizer, loader)
    for batch in loader:
        with accelerator.accumulate(model, head):
            inner = accelerator.unwrap_model(model)
            features = inner(batch)  # expect: DC750=warning
            loss = head(features).mean()
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()


if __name__ == "__main__":
    main(torch.utils.data.DataLoader(torch.rand(64, 2)))
