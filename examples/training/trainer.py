"""Trains a character model with a Trainer of its own: the loop in one class, all else in callbacks.

    torchrun --nproc-per-node=2 trainer.py
    srun --ntasks-per-node=8 python trainer.py --text https://www.gutenberg.org/files/11/11-0.txt

The text is fetched by rank 0, into a folder that all hosts share; by default it is this file. Without a GPU
the same runs on the CPU, with gloo in place of NCCL. Started again, it goes on behind its last checkpoint.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from urllib.request import urlretrieve

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Subset, random_split

CHARACTERS = 128
LENGTH = 32


class Pieces(Dataset):
    """A text, cut into pieces of equal length; each overlaps with the next by one character."""

    def __init__(self, text: str) -> None:
        self.codes = torch.tensor([min(ord(character), CHARACTERS - 1) for character in text])

    def __len__(self) -> int:
        return (len(self.codes) - 1) // LENGTH

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.codes[index * LENGTH : (index + 1) * LENGTH + 1]


class CharacterModel(nn.Module):
    """Says of each character which one follows; what the characters mean may be frozen."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.meaning = nn.Embedding(CHARACTERS, width)
        self.memory = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, CHARACTERS)

    def forward(self, pieces: torch.Tensor) -> torch.Tensor:
        scores = self.head(self.memory(self.meaning(pieces[:, :-1]))[0])
        return nn.functional.cross_entropy(scores.flatten(0, 1), pieces[:, 1:].flatten())


class Callback:
    """What may be done in addition to the training; each method is called on all ranks."""

    def on_train_begin(self, trainer: Trainer) -> None:
        """Before the first epoch."""

    def on_step_end(self, trainer: Trainer, loss: torch.Tensor) -> None:
        """After each step of the optimizer; the loss is that of this rank."""

    def on_epoch_end(self, trainer: Trainer, validation_loss: float) -> None:
        """After each evaluation; the loss is the same number on all ranks."""


class Log(Callback):
    """Prints the mean loss of all ranks now and then, on rank 0."""

    def __init__(self, every: int) -> None:
        self.every = every

    def on_step_end(self, trainer: Trainer, loss: torch.Tensor) -> None:
        if trainer.step % self.every == 0:
            # all ranks take part in the sum, one prints it
            mean = trainer.mean(loss.detach(), 1)
            if trainer.rank == 0:
                print(f"step {trainer.step}: loss {mean:.3f}", flush=True)

    def on_epoch_end(self, trainer: Trainer, validation_loss: float) -> None:
        if trainer.rank == 0:
            print(f"epoch {trainer.epoch}: validation {validation_loss:.3f}", flush=True)


class Checkpoints(Callback):
    """Writes a checkpoint behind each epoch, and goes on from the last one."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "last.pt"

    def on_train_begin(self, trainer: Trainer) -> None:
        os.makedirs(self.path.parent, exist_ok=True)
        if self.path.exists():
            trainer.load_state_dict(torch.load(self.path, map_location="cpu", weights_only=True))

    def on_epoch_end(self, trainer: Trainer, validation_loss: float) -> None:
        state = trainer.state_dict()
        if trainer.rank == 0:
            torch.save(state, self.path.with_suffix(".new"))
            os.replace(self.path.with_suffix(".new"), self.path)
        dist.barrier()


class StopEarly(Callback):
    """Ends the training when the validation gets no better: on all ranks, since all see the same loss."""

    def __init__(self, patience: int) -> None:
        self.patience = patience
        self.best, self.bad_epochs = float("inf"), 0

    def on_epoch_end(self, trainer: Trainer, validation_loss: float) -> None:
        self.bad_epochs = 0 if validation_loss < self.best else self.bad_epochs + 1
        self.best = min(self.best, validation_loss)
        trainer.should_stop = self.bad_epochs > self.patience


class Trainer:
    """The loop, for a model that returns its loss."""

    def __init__(
        self, model: nn.Module, training: Dataset, validation: Dataset, options: argparse.Namespace,
        callbacks: Sequence[Callback],
    ) -> None:  # fmt: skip
        self.rank = dist.get_rank()
        self.options, self.callbacks = options, callbacks
        self.epoch, self.step, self.should_stop = 0, 0, False
        if torch.cuda.is_available():
            self.device = torch.device("cuda", torch.cuda.current_device())
        else:
            self.device = torch.device("cpu")
        # reduces what is measured; gradients have the default group
        self.group = dist.new_group()
        self.sampler = DistributedSampler(training, seed=options.seed, drop_last=True)
        self.loader = DataLoader(training, options.batch_size, sampler=self.sampler, num_workers=options.workers)
        mine = Subset(validation, range(self.rank, len(validation), dist.get_world_size()))
        self.validation_loader = DataLoader(mine, options.batch_size)
        if options.freeze:
            model.meaning.requires_grad_(False)
        self.model = DistributedDataParallel(
            model.to(self.device), device_ids=[self.device] if self.device.type == "cuda" else None
        )
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.AdamW(trained, lr=options.lr)

    def fit(self) -> None:
        """Train until the last epoch, or until a callback says stop."""
        self.call("on_train_begin")
        while self.epoch < self.options.epochs and not self.should_stop:
            self.sampler.set_epoch(self.epoch)
            self.model.train()
            for pieces in self.loader:
                loss = self.model(pieces.to(self.device))
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.step += 1
                self.call("on_step_end", loss)
            validation_loss = self.evaluate()
            self.call("on_epoch_end", validation_loss)
            self.epoch += 1

    @torch.no_grad()
    def evaluate(self) -> float:
        """The mean loss over all ranks, which may have different numbers of batches."""
        self.model.eval()
        total, number = torch.zeros((), device=self.device), 0
        for pieces in self.validation_loader:
            total += self.model.module(pieces.to(self.device)) * len(pieces)
            number += len(pieces)
        return self.mean(total, number)

    def mean(self, total: torch.Tensor, number: int) -> float:
        """The mean over all ranks, of a sum and the number of what it sums up on this rank; each of them calls it."""
        total_and_number = torch.stack((total, total.new_tensor(number)))
        dist.all_reduce(total_and_number, group=self.group)
        total, number = total_and_number.tolist()
        return total / number

    def call(self, name: str, *arguments: object) -> None:
        """The same method of each callback, in the same order on all ranks."""
        for callback in self.callbacks:
            getattr(callback, name)(self, *arguments)

    def state_dict(self) -> dict[str, object]:
        """What a training can go on from: values only, no group and no loader."""
        return {
            "model": self.model.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "epoch": self.epoch + 1,
            "step": self.step,
        }

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Go on from there."""
        self.model.module.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.epoch, self.step = state["epoch"], state["step"]


def start() -> None:
    """Bind this rank to its device, then make the process group, with the numbers that torchrun or Slurm gives."""
    rank = int(os.environ.get("RANK") or os.environ["SLURM_PROCID"])
    local_rank = int(os.environ.get("LOCAL_RANK") or os.environ["SLURM_LOCALID"])
    world_size = int(os.environ.get("WORLD_SIZE") or os.environ["SLURM_NTASKS"])
    if torch.cuda.is_available():
        torch.cuda.set_device(local_rank)
        dist.init_process_group("nccl", rank=rank, world_size=world_size, device_id=torch.device("cuda", local_rank))
    else:
        dist.init_process_group("gloo", rank=rank, world_size=world_size)


def fetch(url: str, folder: Path) -> str:
    """The text behind a URL: rank 0 fetches it, the others wait."""
    os.makedirs(folder, exist_ok=True)
    path = folder / "text.txt"
    if dist.get_rank() == 0 and not path.exists():
        urlretrieve(url, path)
    dist.barrier()
    return path.read_text(encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--text", default=Path(__file__).resolve().as_uri(), help="URL of what is learned")
    parser.add_argument("--folder", type=Path, default=Path("checkpoints"))
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=8, help="of each rank")
    parser.add_argument("--workers", type=int, default=0, help="processes of each rank that load data")
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--freeze", action="store_true", help="leave the meaning of the characters as it is")
    options = parser.parse_args()

    start()
    torch.manual_seed(options.seed + dist.get_rank())
    data = Pieces(fetch(options.text, options.folder))
    training, validation = random_split(data, [0.9, 0.1], generator=torch.Generator().manual_seed(options.seed))
    callbacks = [Log(every=4), Checkpoints(options.folder), StopEarly(patience=3)]
    Trainer(CharacterModel(), training, validation, options, callbacks).fit()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
