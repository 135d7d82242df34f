"""A small ResNet on MNIST, with a configuration file and options, started by torch.distributed.launch."""

from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Judged, Recipe

RECIPE = Recipe(
    repository="hysts/pytorch_image_classification",
    commit="993089a3a08b1955914641fa6e88b5ecbbf638af",
    script="train.py",
    kind="vision",
    launcher=("python", "-m", "torch.distributed.launch"),
    arguments=(
        "--config=configs/cifar/resnet.yaml",
        "dataset.name",
        "MNIST",
        "dataset.n_channels",
        "1",
        "dataset.image_size",
        "28",
        "model.resnet.depth",
        "20",
        "dataset.dataset_dir",
        "{data}",
        "train.distributed",
        "True",
        "scheduler.epochs",
        "1",
        "train.batch_size",
        "32",
    ),
    install=("torchvision", "fvcore", "thop", "yacs", "termcolor", "tensorboard"),
    no_cpu="it binds a GPU",
    ends="finished with status 2",
    steps=0,
    findings=(
        Judged(
            "DC207",
            "",
            True,
            "torch.distributed.launch passes --local-rank from torch 2.0 on, and the script only knows --local_rank",
        ),
    ),
)


def make_data(folder: Path) -> None:
    made_data.mnist(folder)
