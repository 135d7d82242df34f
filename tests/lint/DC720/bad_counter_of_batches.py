"""The index of enumerate() is the same on all ranks, whatever it counts."""

from pathlib import Path

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from tqdm import tqdm


def main(data, folder="checkpoints"):
    accelerator = Accelerator()
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data, batch_size=4))
    for step, batch in enumerate(tqdm(loader, disable=not accelerator.is_main_process)):
        accelerator.backward(model(batch).sum())
        optimizer.step()
        optimizer.zero_grad()
        if step % 1000 == 0:
            torch.save(accelerator.unwrap_model(model).state_dict(), Path(folder, f"step={step}.pth"))  # expect: DC720
        if step % 1000 == 1:
            torch.save(batch, Path(folder, f"{batch['name']}.pth"))


if __name__ == "__main__":
    main(None)
