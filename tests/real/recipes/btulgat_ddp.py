"""A linear model on MNIST with DDP; the global rank as device."""

from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Judged, Recipe

RECIPE = Recipe(
    repository="B-Tulgat/Pytorch-DDP-HPC",
    commit="b3091c2e0764974cb4dc0edcfc0f616e89731b29",
    script="distributed_train.py",
    kind="vision",
    install=("torchvision",),
    data="data",
    ends="distributed_train.py:23",
    steps=0,
    findings=(
        Judged(
            "DC201",
            "distributed_train.py:23",
            True,
            "rank 2 on the second node of 2 GPUs has no GPU 2, and the script stops there with GPUs as well",
        ),
    ),
)


def make_data(folder: Path) -> None:
    made_data.mnist(folder)
