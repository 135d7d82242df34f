"""A vision transformer with AMP and Mixup."""

from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Recipe

RECIPE = Recipe(
    repository="facebookresearch/deit",
    commit="7e160fe43f0252d17191b71cbb5826254114ea5b",
    script="main.py",
    kind="vision",
    arguments=(
        "--model=deit_tiny_patch16_224",
        "--input-size=32",
        "--batch-size=2",
        "--epochs=1",
        "--num_workers=1",
        "--no-repeated-aug",
        "--data-path={data}",
    ),
    install=("timm==0.4.12", "torchvision"),
    no_cpu="it binds a GPU",
    ends="engine.py:98",
    steps=3,
)


def make_data(folder: Path) -> None:
    made_data.imagenet(folder, images=24)
