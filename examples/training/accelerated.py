"""Trains a classifier with Hugging Face Accelerate, which wraps what it is given for as many processes as there are.

    accelerate launch --num-processes=2 accelerated.py
    torchrun --nproc-per-node=2 accelerated.py

Without a GPU the same runs on the CPU. Started again, it goes on behind its last checkpoint.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration, set_seed
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset


def two_spirals(number: int, seed: int) -> Dataset:
    """Points on two spirals that wind around each other, and on which of the two each lies."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(2, (number,), generator=generator)
    angle = 6.28 * torch.rand(number, generator=generator)
    turned = angle + 3.14 * labels
    points = angle[:, None] / 6.28 * torch.stack((turned.cos(), turned.sin()), 1)
    return TensorDataset(points + 0.02 * torch.randn(number, 2, generator=generator), labels)


class Progress:
    """How far the training is; Accelerate writes it with model, optimizer, schedule and random states."""

    def __init__(self) -> None:
        self.epochs_done = 0

    def state_dict(self) -> dict[str, int]:
        return {"epochs_done": self.epochs_done}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.epochs_done = state["epochs_done"]


def train(
    accelerator: Accelerator,
    model: nn.Module,
    loader: DataLoader,
    optimizer: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
) -> float:
    """One epoch; the mean loss over all processes."""
    model.train()
    total = torch.zeros((), device=accelerator.device)
    for points, labels in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(points), labels)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        total += loss.detach()
    return accelerator.reduce(total, "mean").item() / len(loader)


@torch.no_grad()
def evaluate(accelerator: Accelerator, model: nn.Module, loader: DataLoader) -> float:
    """The share of right answers; what the last batch was filled up with is not counted."""
    model.eval()
    right = number = 0
    for points, labels in loader:
        answers, labels = accelerator.gather_for_metrics((model(points).argmax(1), labels))
        right += int((answers == labels).sum())
        number += len(labels)
    return right / number


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=8, help="of each process")
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path("checkpoints"))
    options = parser.parse_args()

    accelerator = Accelerator(
        # without this Accelerate makes no group where there is no GPU, and each process trains alone
        cpu=not torch.cuda.is_available(),
        gradient_accumulation_steps=2,
        # one order for all processes, drawn anew from seed and epoch
        dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True),
    )
    set_seed(options.seed)

    loader = DataLoader(two_spirals(320, seed=1), options.batch_size, shuffle=True)
    validation_loader = DataLoader(two_spirals(72, seed=2), options.batch_size)
    model = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=100)
    # divides the data between the processes, and wraps the model
    model, optimizer, loader, validation_loader, schedule = accelerator.prepare(
        model, optimizer, loader, validation_loader, schedule
    )
    progress = Progress()
    accelerator.register_for_checkpointing(progress)
    if options.folder.exists():
        accelerator.load_state(options.folder)

    for epoch in range(progress.epochs_done, options.epochs):
        loader.set_epoch(epoch)
        loss = train(accelerator, model, loader, optimizer, schedule)
        accuracy = evaluate(accelerator, model, validation_loader)
        accelerator.print(f"epoch {epoch}: loss {loss:.3f}, {accuracy:.1%} right", flush=True)
        progress.epochs_done = epoch + 1
        # called by all: each process adds its random states to what the first one writes
        accelerator.save_state(options.folder)

    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        accelerator.save(accelerator.unwrap_model(model).state_dict(), options.folder / "network.pt")
    accelerator.end_training()


if __name__ == "__main__":
    main()
