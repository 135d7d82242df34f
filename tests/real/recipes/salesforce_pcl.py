"""Contrastive learning with a queue and clusters on two networks; starts its ranks by mp.spawn."""

from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Recipe

RECIPE = Recipe(
    repository="salesforce/PCL",
    commit="964da1fb7c0546e8ce55627fa3c0debde4b7e456",
    script="main_pcl.py",
    kind="vision",
    launcher=(),
    nodes=1,
    # it reads RANK as well, for another launcher
    options=("--launcher=script",),
    arguments=(
        "{data}",
        "--arch=resnet18",
        "--workers=1",
        "--epochs=1",
        "--batch-size=8",
        "--pcl-r=8",
        "--num-cluster=2",
        "--warmup-epoch=2",
        "--print-freq=1",
        "--dist-url=tcp://127.0.0.1:23456",
        "--world-size=1",
        "--rank=0",
        "--multiprocessing-distributed",
    ),
    # faiss only clusters after the warm-up
    variables=(("PYTHONPATH", "{data}/stand_in"),),
    install=("torchvision", "tqdm"),
    no_cpu="it starts a rank for each GPU",
)


def make_data(folder: Path) -> None:
    made_data.imagenet(folder, images=16)
    made_data.stand_in(folder / "stand_in", "faiss")
