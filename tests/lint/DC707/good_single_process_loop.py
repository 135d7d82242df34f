"""One process, no group: it may stop when it likes."""

import torch


def train(model: torch.nn.Module, batches: list) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in batches:
        loss = model(batch).mean()
        if torch.isnan(loss):
            continue
        loss.backward()
        optimizer.step()
        if loss.item() < 1e-3:
            break
