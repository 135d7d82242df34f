"""A trainer with hooks on MNIST: rank 0 alone evaluates."""

from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Recipe

RECIPE = Recipe(
    repository="serend1p1ty/core-pytorch-utils",
    commit="cf5dc177fd2ecd9eb4254369d93605264294f109",
    script="train_minist_dist.py",
    kind="vision",
    folder="examples",
    arguments=("--epochs=1", "--batch-size=8", "--dataset-dir={data}"),
    variables=(("PYTHONPATH", ".."),),
    install=("torchvision", "tensorboard", "termcolor", "tabulate", "pyyaml"),
    no_cpu="it binds a GPU",
)


def make_data(folder: Path) -> None:
    made_data.mnist(folder)
