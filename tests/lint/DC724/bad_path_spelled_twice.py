"""The path is put together twice, in the same way."""

import os
from pathlib import Path

import torch
import torch.distributed as dist


def joined(model: torch.nn.Module, folder: str) -> None:
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), os.path.join(folder, "initial.pt"))
    model.load_state_dict(torch.load(os.path.join(folder, "initial.pt")))  # expect: DC724


def divided(model: torch.nn.Module, folder: str) -> None:
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), Path(folder) / "initial.pt")
    model.load_state_dict(torch.load(Path(folder) / "initial.pt"))  # expect: DC724


def with_suffix(model: torch.nn.Module, path: str) -> None:
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), Path(path).with_suffix(".pt"))
    model.load_state_dict(torch.load(Path(path).with_suffix(".pt")))  # expect: DC724


def formatted(model: torch.nn.Module, folder: str) -> None:
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), f"{Path(folder)}/initial.pt")
    model.load_state_dict(torch.load(f"{Path(folder)}/initial.pt"))  # expect: DC724


def in_folder(folder: Path) -> None:
    if dist.get_rank() == 0:
        folder.mkdir(exist_ok=True)
    torch.save({}, folder.joinpath(f"rank-{dist.get_rank()}.pt"))  # expect: DC724


if __name__ == "__main__":
    dist.init_process_group("gloo")
    network = torch.nn.Linear(2, 2)
    joined(network, "run")
    divided(network, "run")
    with_suffix(network, "run")
    formatted(network, "run")
    in_folder(Path("run"))
    dist.destroy_process_group()
