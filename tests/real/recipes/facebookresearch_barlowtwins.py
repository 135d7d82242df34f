"""Self-supervised ResNet-50 with SyncBatchNorm, AMP and an all_reduce in forward; starts its ranks by mp.spawn."""

from pathlib import Path

from tests.real import made_data
from tests.real.recipe import FINISHED, Recipe

RECIPE = Recipe(
    repository="facebookresearch/barlowtwins",
    commit="8e8d284ca0bc02f88b92328e53f9b901e86b4a3c",
    script="main.py",
    kind="vision",
    launcher=(),
    nodes=1,
    arguments=("{data}", "--epochs=1", "--workers=1", "--batch-size=4", "--projector=64-64-64", "--print-freq=1"),
    install=("torchvision",),
    no_cpu="it starts a rank for each GPU",
    ends=FINISHED,
    steps=0,
)


def make_data(folder: Path) -> None:
    made_data.imagenet(folder, images=8)
