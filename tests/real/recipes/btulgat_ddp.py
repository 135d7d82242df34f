"""A linear model on MNIST with DDP; the global rank as device."""

from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Recipe

RECIPE = Recipe(
    repository="B-Tulgat/Pytorch-DDP-HPC",
    commit="b3091c2e0764974cb4dc0edcfc0f616e89731b29",
    script="distributed_train.py",
    kind="vision",
    install=("torchvision",),
    data="data",
)


def make_data(folder: Path) -> None:
    made_data.mnist(folder)
