"""A plain convolutional network with timm and its own options."""

from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Recipe

RECIPE = Recipe(
    repository="huawei-noah/VanillaNet",
    commit="6aaf7311d8cadddcec9db7595f071bfda6c480f4",
    script="main.py",
    kind="vision",
    arguments=(
        "--model=vanillanet_5",
        "--batch_size=2",
        "--epochs=1",
        "--num_workers=1",
        "--data_path={data}",
        "--nb_classes=2",
        "--output_dir={data}/out",
    ),
    install=("timm", "torchvision", "tensorboard"),
    no_cpu="it binds a GPU",
)


def make_data(folder: Path) -> None:
    made_data.imagenet(folder, images=12)
    (folder / "out").mkdir()
