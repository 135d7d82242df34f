"""A diffusion model on MNIST: ranks share the images that they sample; started by torchrun, with LOCAL_RANK unread."""

from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Judged, Recipe

RECIPE = Recipe(
    repository="VSehwag/minimal-diffusion",
    commit="ea0321eba164bfabe5562487cb5d1267b4881dad",
    script="main.py",
    kind="diffusion",
    arguments=("--arch=UNet", "--dataset=mnist", "--class-cond", "--epochs=1", "--batch-size=4", "--data-dir={data}"),
    install=("torchvision", "easydict", "opencv-python-headless", "tqdm"),
    no_cpu="it needs CUDA",
    findings=(
        Judged("DC303", "main.py:358", True, "torchrun passes no --local_rank, so all ranks of a node take GPU 0"),
    ),
)


def make_data(folder: Path) -> None:
    made_data.mnist(folder)
