"""A small convolutional network on MNIST with DDP."""

from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Recipe

RECIPE = Recipe(
    repository="crusoecloud/distributed-torchrun-on-slurm",
    commit="d8d776a35521bc767f24ba6f85e1af55a3fafdd6",
    script="basic-distributed-training/train_distributed.py",
    kind="vision",
    arguments=("--epochs=1", "--batch-size=8", "--data-dir={data}"),
    install=("torchvision",),
    no_cpu="it binds a GPU",
)


def make_data(folder: Path) -> None:
    made_data.mnist(folder)
