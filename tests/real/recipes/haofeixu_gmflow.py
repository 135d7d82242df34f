"""Optical flow by a transformer, in the launcher that came after the one of its documentation."""

from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Judged, Recipe

RECIPE = Recipe(
    repository="haofeixu/gmflow",
    commit="b5123431164d01ec14526a1c3d22218aecb62024",
    script="main.py",
    kind="vision",
    arguments=(
        "--launcher=pytorch",
        "--checkpoint_dir=out",
        "--stage=chairs",
        "--image_size",
        "64",
        "96",
        "--batch_size=4",
        "--num_workers=1",
        "--num_steps=4",
        "--feature_channels=32",
        "--num_transformer_layers=1",
        "--val_dataset",
        "none",
    ),
    data="datasets/FlyingChairs_release/data",
    install=("torchvision", "opencv-python-headless<4.11", "numpy<2", "tensorboard"),
    no_cpu="it binds a GPU",
    findings=(
        Judged("DC303", "main.py:161", True, "torchrun passes no --local_rank, so all ranks put their model on GPU 0"),
        Judged(
            "DC720", "main.py:425", True, "the test is of the local rank, so at least one rank of each node writes it"
        ),
        Judged("DC721", "main.py:363", True, "the same test, in front of the writer"),
        Judged(
            "DC732",
            "main.py:347",
            True,
            "the sampler gets the local rank and the GPUs of one node, so both nodes draw the same",
        ),
    ),
)


def make_data(folder: Path) -> None:
    made_data.flying_chairs(folder)
