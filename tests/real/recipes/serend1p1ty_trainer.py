"""A trainer with hooks on MNIST: rank 0 alone evaluates."""

from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Judged, Recipe

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
    ends="cpu/trainer.py:109",
    steps=0,
    findings=(
        Judged(
            "DC206",
            "cpu/distributed.py:213",
            True,
            "a barrier comes before the line that binds each rank to its GPU, and torch 2.13 runs it on GPU 0 of each node",
        ),
    ),
)


def make_data(folder: Path) -> None:
    made_data.mnist(folder)
