"""Trains an autoencoder on all GPUs of one host; the script starts its own ranks with ``torch.multiprocessing.spawn``.

    python spawn.py

Without a GPU two ranks compute on the CPU, with gloo in place of NCCL. On several hosts, each starts it with
``--nnodes``, its ``--node-rank``, and the address and a port of the first. Started again, it goes on behind its last
checkpoint.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Subset


class Waves(Dataset):
    """Sine waves of random frequency and phase; each is drawn from its own number, so that all ranks see the same."""

    def __init__(self, begin: int, end: int, points: int = 32) -> None:
        self.numbers = range(begin, end)
        self.time = torch.linspace(0.0, 1.0, points)

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(self.numbers[index])
        frequency, phase = torch.rand(2, generator=generator)
        return torch.sin(6.28 * (3 * frequency * self.time + phase))


class Autoencoder(nn.Module):
    """Everything through four numbers and back."""

    def __init__(self, points: int = 32) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(points, 32), nn.ReLU(), nn.Linear(32, 4))
        self.decoder = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, points))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.decoder(self.encoder(x))


def free_port() -> int:
    """A port of this host without a listener."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def less_noise(epoch: int) -> float:
    """How much noise an epoch adds. A function of the module, not one inside another: it is sent to each rank."""
    return 0.2 / (1 + epoch)


def worker(local_rank: int, ranks_a_node: int, noise_of: Callable[[int], float], options: argparse.Namespace) -> None:
    """One rank, from its process group to its end."""
    rank = options.node_rank * ranks_a_node + local_rank
    world_size = options.nnodes * ranks_a_node
    address = f"tcp://{options.master_addr}:{options.master_port}"
    if torch.cuda.is_available():
        device = torch.device("cuda", local_rank)
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", address, rank=rank, world_size=world_size, device_id=device)
    else:
        device = torch.device("cpu")
        dist.init_process_group("gloo", address, rank=rank, world_size=world_size)
    try:
        train(rank, device, noise_of, options)
    finally:
        dist.destroy_process_group()


def train(rank: int, device: torch.device, noise_of: Callable[[int], float], options: argparse.Namespace) -> None:
    """All epochs of one rank."""
    torch.manual_seed(options.seed + rank)
    training, validation = Waves(0, 480), Waves(480, 560)
    sampler = DistributedSampler(training, seed=options.seed)
    loader = DataLoader(training, options.batch_size, sampler=sampler)
    mine = Subset(validation, range(rank, len(validation), dist.get_world_size()))
    validation_loader = DataLoader(mine, options.batch_size)
    model = DistributedDataParallel(Autoencoder().to(device), device_ids=[device] if device.type == "cuda" else None)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)

    path = options.folder / "autoencoder.pt"
    first_epoch = 0
    if path.exists():
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
        model.module.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        schedule.load_state_dict(checkpoint["schedule"])
        first_epoch = checkpoint["epoch"] + 1
    # the file is written after all have read it
    dist.barrier()

    for epoch in range(first_epoch, options.epochs):
        sampler.set_epoch(epoch)
        model.train()
        for number, waves in enumerate(loader, start=1):
            step_now = number % options.accumulate == 0 or number == len(loader)
            waves = waves.to(device)
            noisy = waves + noise_of(epoch) * torch.randn_like(waves)
            # between two steps gradients are only summed up, and ranks need not meet
            with contextlib.nullcontext() if step_now else model.no_sync():
                loss = nn.functional.mse_loss(model(noisy), waves)
                (loss / options.accumulate).backward()
            if step_now:
                optimizer.step()
                optimizer.zero_grad()
        schedule.step()

        error = evaluate(model.module, validation_loader, device)
        if rank == 0:
            print(f"epoch {epoch}: error {error:.4f}", flush=True)
            options.folder.mkdir(parents=True, exist_ok=True)
            states = {
                "model": model.module.state_dict(),
                "optimizer": optimizer.state_dict(),
                "schedule": schedule.state_dict(),
                "epoch": epoch,
            }
            torch.save(states, path.with_suffix(".new"))
            os.replace(path.with_suffix(".new"), path)


@torch.no_grad()
def evaluate(network: nn.Module, loader: DataLoader, device: torch.device) -> float:
    """The mean squared error over all ranks, which may have different numbers of batches."""
    network.eval()
    error_and_number = torch.zeros(2, device=device)
    for waves in loader:
        waves = waves.to(device)
        error_and_number[0] += nn.functional.mse_loss(network(waves), waves, reduction="sum")
        error_and_number[1] += waves.numel()
    dist.all_reduce(error_and_number)
    error, number = error_and_number.tolist()
    return error / number


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=8, help="of each rank")
    parser.add_argument("--accumulate", type=int, default=2, help="batches for each step")
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path("checkpoints"))
    parser.add_argument("--nnodes", type=int, default=1)
    parser.add_argument("--node-rank", type=int, default=int(os.environ.get("NODE_RANK", "0")))
    parser.add_argument("--master-addr", default=os.environ.get("MASTER_ADDR", "127.0.0.1"))
    parser.add_argument("--master-port", type=int, default=int(os.environ.get("MASTER_PORT", "0")))
    options = parser.parse_args()
    if options.nnodes == 1:
        options.master_port = free_port()
    elif not options.master_port:
        parser.error("several hosts need a --master-port that all of them are given")
    ranks_a_node = torch.cuda.device_count() or 2
    mp.spawn(worker, args=(ranks_a_node, less_noise, options), nprocs=ranks_a_node)


if __name__ == "__main__":
    main()
