"""The tutorial of 2017: two processes, gradients averaged by hand."""

from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Recipe

RECIPE = Recipe(
    repository="seba-1511/dist_tuto.pth",
    commit="a552567061a9985cdcfe72ecb9b47e4630d6a7fe",
    script="train_dist.py",
    kind="vision",
    launcher=(),
    nodes=1,
    install=("torchvision",),
    data="data",
)


def make_data(folder: Path) -> None:
    made_data.mnist(folder)
