"""Classification with a launcher that names the local rank in an argument which the script does not know."""

from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Judged, Recipe

RECIPE = Recipe(
    repository="DingXiaoH/RepVGG",
    commit="eae7c5204001eaf195bbe2ee72fb6a37855cce33",
    script="main.py",
    kind="vision",
    launcher=("python", "-m", "torch.distributed.launch"),
    arguments=(
        "--arch=RepVGG-A0",
        "--data-path={data}",
        "--batch-size=2",
        "--output=out",
        "--opts",
        "DATA.IMG_SIZE",
        "64",
        "DATA.NUM_WORKERS",
        "1",
        "TRAIN.EPOCHS",
        "1",
        "TRAIN.WARMUP_EPOCHS",
        "0",
        "AUG.PRESET",
        "weak",
    ),
    install=("torchvision", "timm>=0.9", "yacs", "termcolor", "pyyaml"),
    no_cpu="it binds a GPU",
    findings=(
        Judged(
            "DC303",
            "main.py:372",
            True,
            "the launcher of torch 2 passes --local-rank, parse_known_args drops it, and all ranks bind GPU 0",
        ),
    ),
)


def make_data(folder: Path) -> None:
    import torch

    made_data.imagenet(folder, images=20)
    # torchvision's ImageNet reads the names of the classes there
    torch.save(({f"class{number}": (f"class {number}",) for number in range(2)}, []), folder / "meta.bin")
