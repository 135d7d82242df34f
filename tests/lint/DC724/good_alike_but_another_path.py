"""What is written and what is read are spelled alike; they are different files."""

import os
from pathlib import Path

import torch
import torch.distributed as dist


def other_file(model: torch.nn.Module, folder: str) -> None:
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), os.path.join(folder, "last.pt"))
    model.load_state_dict(torch.load(os.path.join(folder, "first.pt")))


def deeper(model: torch.nn.Module, folder: str) -> None:
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), os.path.join(folder, "last.pt"))
    model.load_state_dict(torch.load(os.path.join(folder, "last.pt", "weights")))


def other_ending(model: torch.nn.Module, path: str) -> None:
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), Path(path).with_suffix(".new"))
    model.load_state_dict(torch.load(Path(path).with_suffix(".pt")))


def other_function(model: torch.nn.Module, path: str) -> None:
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), os.path.abspath(path))
    model.load_state_dict(torch.load(os.path.basename(path)))


def of_config(model: torch.nn.Module, config: dict) -> None:
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), config["last"])
    model.load_state_dict(torch.load(config["first"]))


def settings_elsewhere(folder: str, path: str) -> str:
    if dist.get_rank() == 0:
        os.makedirs(folder, exist_ok=True)
    with open(path) as file:
        return file.read()


def elsewhere(folder: Path) -> None:
    rank = dist.get_rank()
    if rank == 0:
        (folder / "main").mkdir(exist_ok=True)
    torch.save({}, folder / f"rank-{rank}.pt")


def newest(model: torch.nn.Module, settings) -> None:
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), settings.take("path"))
    model.load_state_dict(torch.load(settings.take("path")))


if __name__ == "__main__":
    dist.init_process_group("gloo")
    network = torch.nn.Linear(2, 2)
    other_file(network, "run")
    deeper(network, "run")
    other_ending(network, "run.pt")
    other_function(network, "run.pt")
    of_config(network, {"last": "a", "first": "b"})
    settings_elsewhere("run", "settings")
    elsewhere(Path("run"))
    newest(network, None)
    dist.destroy_process_group()
