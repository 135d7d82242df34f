"""ImageNet classification; starts a rank for each GPU by mp.spawn."""

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
        "--arch=mobilenet_v3_small",
        "--dist-url=tcp://127.0.0.1:23456",
        "--world-size=1",
        "--rank=0",
        "--epochs=1",
        "--batch-size=8",
        "--workers=4",
        "--print-freq=1",
        "{data}",
    ),
    install=("torchvision",),
    no_cpu="it starts a rank for each GPU",
    # a view of a tensor that isn't contiguous any more
    steps=0,
    ends="imagenet_ddp.py:393",
)


def make_data(folder: Path) -> None:
    made_data.imagenet(folder)
