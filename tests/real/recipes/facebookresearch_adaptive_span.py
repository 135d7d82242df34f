"""A transformer with adaptive attention spans: DDP, a checkpoint of each epoch, `python -m torch.distributed.launch`."""

from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Judged, Recipe

RECIPE = Recipe(
    repository="facebookresearch/adaptive-span",
    commit="27b815fee821acce2c2d4104cc0720cb1dc74c37",
    script="main.py",
    kind="language",
    launcher=("python", "-m", "torch.distributed.launch"),
    arguments=(
        "--distributed",
        "--data={data}",
        "--nlayers=2",
        "--hid-sz=16",
        "--inner-hid-sz=32",
        "--nheads=2",
        "--attn-span=32",
        "--block-sz=8",
        "--batch-sz=8",
        "--optim=adagrad",
        "--lr=0.07",
        "--lr-warmup=100",
        "--niter=1",
        "--nbatches=4",
        "--adapt-span",
        "--checkpoint=check.pt",
    ),
    no_cpu="it needs CUDA",
    steps=0,
    # argparse ends each rank, as it does on GPUs with torch 2.0 and later
    ends="finished with status 2",
    findings=(Judged("DC207", "", True, "it declares --local_rank only, and the launcher passes --local-rank"),),
)


def make_data(folder: Path) -> None:
    for part in ("train", "valid", "test"):
        made_data.text(folder / f"{part}.txt")
