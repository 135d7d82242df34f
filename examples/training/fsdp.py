"""Trains a small transformer whose parameters are divided between the ranks (FSDP2), started by torchrun.

    torchrun --nproc-per-node=2 fsdp.py

Needs torch 2.6 or newer. Without a GPU the same runs on the CPU, with gloo in place of NCCL. Started again, it goes on
behind its last checkpoint, also with another number of ranks.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, Dataset, DistributedSampler

VOCABULARY = 32
LENGTH = 16


class Counting(Dataset):
    """Sequences that count in steps of their own, as 3 5 7 9 …; made when they are asked for, the same everywhere."""

    def __init__(self, begin: int, end: int) -> None:
        self.numbers = range(begin, end)

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int) -> torch.Tensor:
        number = self.numbers[index]
        return (number + (1 + number % 5) * torch.arange(LENGTH + 1)) % VOCABULARY


class Block(nn.Module):
    """Attention and a feed-forward layer, each around a shortcut."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, num_heads=2, batch_first=True)
        self.forward_layer = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        y = self.norms[0](x)
        x = x + self.attention(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.forward_layer(self.norms[1](x))


class Transformer(nn.Module):
    """Says of each token which one follows; its forward pass returns the loss."""

    def __init__(self, width: int = 32, depth: int = 2) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.places = nn.Embedding(LENGTH, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        tokens, following = batch[:, :-1], batch[:, 1:]
        x = self.tokens(tokens) + self.places(torch.arange(LENGTH, device=batch.device))
        mask = torch.triu(torch.ones(LENGTH, LENGTH, dtype=torch.bool, device=batch.device), diagonal=1)
        for block in self.blocks:
            x = block(x, mask)
        return nn.functional.cross_entropy(self.head(x).flatten(0, 1), following.flatten())


def mean(total: torch.Tensor, number: int) -> float:
    """The mean over all ranks of what each has summed up ``number`` times."""
    dist.all_reduce(total)
    return total.item() / (number * dist.get_world_size())


def train(
    model: nn.Module, loader: DataLoader, optimizer: torch.optim.Optimizer, device: torch.device, accumulate: int = 2
) -> float:
    """One epoch, with a step for each ``accumulate`` batches; the mean loss over all ranks."""
    model.train()
    total = torch.zeros((), device=device)
    for number, batch in enumerate(loader, start=1):
        step_now = number % accumulate == 0 or number == len(loader)
        # gradients are reduced once a step, with the last of its batches
        model.set_requires_gradient_sync(step_now)
        loss = model(batch.to(device))
        (loss / accumulate).backward()
        total += loss.detach()
        if step_now:
            nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            optimizer.step()
            optimizer.zero_grad()
    return mean(total, len(loader))


@torch.no_grad()
def evaluate(model: nn.Module, loader: DataLoader, device: torch.device) -> float:
    """The mean loss. Each forward pass gathers parameters from all ranks: all have the same number of batches."""
    model.eval()
    total = torch.zeros((), device=device)
    for batch in loader:
        total += model(batch.to(device))
    return mean(total, len(loader))


class State:
    """What a checkpoint holds; each rank writes and reads its own part."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.model, self.optimizer, self.epoch = model, optimizer, -1

    def state_dict(self) -> dict[str, object]:
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer, "epoch": self.epoch}

    def load_state_dict(self, state: dict[str, object]) -> None:
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        self.epoch = state["epoch"]


def newest_epoch(folder: Path, device: torch.device) -> int:
    """The epoch of the newest checkpoint, or -1; as rank 0 sees it, since others may see another one."""
    epoch = torch.tensor(-1, device=device)
    if dist.get_rank() == 0:
        # .metadata is written last: where it is, the checkpoint is whole
        epochs = [int(path.parent.name.removeprefix("epoch-")) for path in folder.glob("epoch-*/.metadata")]
        epoch.fill_(max(epochs, default=-1))
    dist.broadcast(epoch, src=0)
    return int(epoch)


def start() -> torch.device:
    """Bind this rank to its device, then make the process group."""
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", device_id=device)
    else:
        device = torch.device("cpu")
        dist.init_process_group("gloo")
    return device


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=8, help="of each rank")
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--folder", type=Path, default=Path("checkpoints"))
    options = parser.parse_args()

    device = start()
    rank, world_size = dist.get_rank(), dist.get_world_size()

    training, validation = Counting(0, 512), Counting(512, 576)
    sampler = DistributedSampler(training, drop_last=True)
    loader = DataLoader(training, options.batch_size, sampler=sampler)
    validation_sampler = DistributedSampler(validation, shuffle=False, drop_last=True)
    validation_loader = DataLoader(validation, options.batch_size, sampler=validation_sampler)

    # the same numbers everywhere: each rank keeps its part of the same parameters
    torch.manual_seed(0)
    model = Transformer().to(device)
    mesh = init_device_mesh(device.type, (world_size,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    # the optimizer is made of the parameters as they are divided
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr)

    state = State(model, optimizer)
    if (epoch := newest_epoch(options.folder, device)) >= 0:
        dcp.load({"state": state}, checkpoint_id=options.folder / f"epoch-{epoch}")

    for epoch in range(state.epoch + 1, options.epochs):
        sampler.set_epoch(epoch)
        loss = train(model, loader, optimizer, device)
        validation_loss = evaluate(model, validation_loader, device)
        if rank == 0:
            print(f"epoch {epoch}: loss {loss:.3f}, validation {validation_loss:.3f}", flush=True)
        state.epoch = epoch
        dcp.save({"state": state}, checkpoint_id=options.folder / f"epoch-{epoch}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
