"""A detector on COCO; started by torch.distributed.launch."""

from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Judged, Recipe

RECIPE = Recipe(
    repository="rosinality/fcos-pytorch",
    commit="a064eccf6d45fc85da401151dcefe7a3b01a065b",
    script="train.py",
    kind="vision",
    launcher=("python", "-m", "torch.distributed.launch"),
    arguments=("--batch=2", "{data}"),
    install=("torchvision", "pycocotools", "tqdm"),
    no_cpu="it needs CUDA",
    ends="finished with status 2",
    steps=0,
    findings=(Judged("DC207", "", True, "it declares --local_rank only, and the launcher passes --local-rank"),),
)


def make_data(folder: Path) -> None:
    made_data.coco(folder, images=4)
