"""A network that filters in the frequency domain."""

from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Recipe

RECIPE = Recipe(
    repository="raoyongming/GFNet",
    commit="2de48b626ea805de82a7f389fed930af1ae0340d",
    script="main_gfnet.py",
    kind="vision",
    arguments=(
        "--arch=gfnet-ti",
        "--batch-size=2",
        "--epochs=1",
        "--num_workers=1",
        "--data-path={data}",
        "--output_dir={data}/out",
    ),
    install=("timm", "torchvision"),
    no_cpu="it binds a GPU",
)


def make_data(folder: Path) -> None:
    made_data.imagenet(folder, images=12)
    (folder / "out").mkdir()
