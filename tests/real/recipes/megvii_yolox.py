"""A detector on COCO: mosaic images, an average of the weights, a group for each node; mp.start_processes."""

from pathlib import Path

from tests.real import made_data
from tests.real.recipe import FINISHED, Judged, Recipe

RECIPE = Recipe(
    repository="Megvii-BaseDetection/YOLOX",
    commit="6ddff4824372906469a7fae2dc3206c7aa4bbaee",
    script="tools/train.py",
    kind="vision",
    launcher=(),
    nodes=1,
    arguments=(
        "--exp_file=exps/default/yolox_nano.py",
        "--devices=4",
        "--batch-size=8",
        "data_num_workers",
        "1",
        "max_epoch",
        "1",
        "multiscale_range",
        "0",
    ),
    data="datasets/COCO",
    variables=(("PYTHONPATH", "."),),
    install=(
        "torchvision",
        "opencv-python-headless",
        "loguru",
        "tqdm",
        "tabulate",
        "tensorboard",
        "pycocotools",
        "thop",
    ),
    no_cpu="it starts a rank for each GPU",
    ends=FINISHED,
    steps=2,
    findings=(
        Judged(
            "DC206",
            "yolox/core/launch.py:118",
            True,
            "a barrier comes before the line that binds each rank to its GPU, and torch 2.13 runs it on GPU 0 of each node",
        ),
    ),
)


def make_data(folder: Path) -> None:
    made_data.coco(folder)
