"""ResNet-18 on ImageNet folders, with mp.spawn and an address on this node."""

from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Recipe

RECIPE = Recipe(
    repository="richardkxu/distributed-pytorch",
    commit="b2a3e175d468d7cbceb6d0e020a603da83d789f4",
    script="imagenet_ddp.py",
    kind="vision",
    launcher=(),
    nodes=1,
    arguments=(
        "{data}",
        "--arch=resnet18",
        "--epochs=1",
        "--batch-size=8",
        "--workers=4",
        "--rank=0",
        "--world-size=1",
        "--dist-url=tcp://127.0.0.1:23457",
    ),
    install=("torchvision",),
    no_cpu="it starts a rank for each GPU",
)


def make_data(folder: Path) -> None:
    made_data.imagenet(folder, images=12)
