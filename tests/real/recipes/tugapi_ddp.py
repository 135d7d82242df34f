"""A perceptron on FashionMNIST with DDP."""

from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Recipe

RECIPE = Recipe(
    repository="Tugapi/DDP-training-example",
    commit="25d8b0cd670779d554bf582df4da0eea5e0197ed",
    script="DDP_train_example.py",
    kind="vision",
    arguments=("--epochs=1", "--batch_size=8", "--workers=1"),
    install=("torchvision", "tqdm"),
    data="data",
    no_cpu="it calls .cuda()",
)


def make_data(folder: Path) -> None:
    made_data.mnist(folder, name="FashionMNIST")
