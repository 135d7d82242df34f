from pathlib import Path

import torch
import torch.distributed as dist


def write(folder: Path) -> None:
    rank = dist.get_rank()
    if rank == 0:
        folder.mkdir(parents=True, exist_ok=True)
    (folder / f"rank-{rank}.txt").write_text("begin")  # expect: DC724


def keep(folder: Path, state: dict) -> None:
    rank = dist.get_rank()
    if rank == 0:
        folder.mkdir(parents=True, exist_ok=True)
    torch.save(state, folder / f"state-{rank}.pt")  # expect: DC724


def keep_f(folder: Path, state: dict) -> None:
    rank = dist.get_rank()
    if rank == 0:
        folder.mkdir(parents=True, exist_ok=True)
    torch.save(state, f"{folder}/state-{rank}.pt")  # expect: DC724


def opened(folder: Path) -> None:
    rank = dist.get_rank()
    if rank == 0:
        folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"log-{rank}").open("w") as file:  # expect: DC724
        file.write("begin")


def plain(folder: Path) -> str:
    target = folder / "vocabulary.txt"
    if dist.get_rank() == 0:
        target.write_text("a b c")
    with target.open() as file:  # expect: DC724
        return file.read()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    write(Path("logs"))
    keep(Path("logs"), {})
    keep_f(Path("logs"), {})
    opened(Path("logs"))
    plain(Path("logs"))
    dist.destroy_process_group()
