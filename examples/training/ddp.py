"""Trains a small network on images with plain DistributedDataParallel: one process a GPU, started by torchrun.

    torchrun --nproc-per-node=2 ddp.py
    torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=c10d --rdzv-endpoint=$HEAD:29400 ddp.py

Without a GPU the same runs on the CPU, with gloo in place of NCCL. Started again, it goes on behind its last
checkpoint.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Subset, TensorDataset, random_split


class Network(nn.Module):
    """Two convolutions, and a linear layer on top."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, kernel_size=3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 16, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(4),
            nn.Flatten(),
            nn.Dropout(0.1),
        )
        self.head = nn.Linear(16 * 4 * 4, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(images))


def noisy_images(number: int, classes: int) -> Dataset:
    """Images of 8 by 8 pixels: the picture of their class, and noise; the same on every rank."""
    generator = torch.Generator().manual_seed(0)
    pictures = torch.randn(classes, 1, 8, 8, generator=generator)
    labels = torch.randint(classes, (number,), generator=generator)
    return TensorDataset(pictures[labels] + torch.randn(number, 1, 8, 8, generator=generator), labels)


def start() -> torch.device:
    """Bind this rank to its device, then make the process group."""
    if torch.cuda.is_available():
        local_rank = int(os.environ["LOCAL_RANK"])
        device = torch.device("cuda", local_rank)
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", device_id=device)
    else:
        device = torch.device("cpu")
        dist.init_process_group("gloo")
    return device


def train(
    model: DistributedDataParallel, loader: DataLoader, optimizer: torch.optim.Optimizer, device: torch.device
) -> float:
    """One epoch; the mean loss over all ranks."""
    model.train()
    total = torch.zeros((), device=device)
    for images, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
        total += loss.detach()
    dist.all_reduce(total)
    return total.item() / (len(loader) * dist.get_world_size())


@torch.no_grad()
def evaluate(network: nn.Module, loader: DataLoader, device: torch.device) -> float:
    """The share of right answers. Ranks may have different numbers of batches: the network is not the wrapped one."""
    network.eval()
    right_and_all = torch.zeros(2, device=device)
    for images, labels in loader:
        answers = network(images.to(device)).argmax(1)
        right_and_all[0] += (answers == labels.to(device)).sum()
        right_and_all[1] += len(labels)
    dist.all_reduce(right_and_all)
    right, number = right_and_all.tolist()
    return right / number


def save(path: Path, **state: object) -> None:
    """Write a checkpoint, which is there as a whole or not at all; for one rank."""
    written = path.with_suffix(".new")
    torch.save(state, written)
    os.replace(written, path)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=8, help="of each rank")
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path("checkpoints"))
    options = parser.parse_args()

    device = start()
    rank, world_size = dist.get_rank(), dist.get_world_size()
    # each rank has random numbers of its own for its dropout; what all must share has a generator
    torch.manual_seed(options.seed + rank)

    data = noisy_images(393, classes=10)
    training, validation = random_split(data, [0.8, 0.2], generator=torch.Generator().manual_seed(options.seed))
    sampler = DistributedSampler(training, seed=options.seed)
    loader = DataLoader(training, options.batch_size, sampler=sampler)
    # no image twice, as a sampler that pads would have it
    mine = Subset(validation, range(rank, len(validation), world_size))
    validation_loader = DataLoader(mine, options.batch_size)

    network = Network(classes=10).to(device)
    model = DistributedDataParallel(network, device_ids=[device] if device.type == "cuda" else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr, momentum=0.9)

    os.makedirs(options.folder, exist_ok=True)
    last, best = options.folder / "last.pt", options.folder / "best.pt"
    first_epoch, best_accuracy = 0, 0.0
    if last.exists():
        checkpoint = torch.load(last, map_location=device, weights_only=True)
        model.module.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        first_epoch, best_accuracy = checkpoint["epoch"] + 1, checkpoint["best_accuracy"]

    for epoch in range(first_epoch, options.epochs):
        sampler.set_epoch(epoch)
        loss = train(model, loader, optimizer, device)
        accuracy = evaluate(model.module, validation_loader, device)
        if rank == 0:
            print(f"epoch {epoch}: loss {loss:.3f}, {accuracy:.1%} right", flush=True)
            if accuracy >= best_accuracy:
                save(best, model=model.module.state_dict())
            save(
                last,
                model=model.module.state_dict(),
                optimizer=optimizer.state_dict(),
                epoch=epoch,
                best_accuracy=max(accuracy, best_accuracy),
            )
        best_accuracy = max(accuracy, best_accuracy)

    # the others read what rank 0 writes
    dist.barrier()
    model.module.load_state_dict(torch.load(best, map_location=device, weights_only=True)["model"])
    accuracy = evaluate(model.module, validation_loader, device)
    if rank == 0:
        print(f"best: {accuracy:.1%} right", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
