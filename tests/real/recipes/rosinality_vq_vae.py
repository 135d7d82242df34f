"""A vector-quantized autoencoder whose ranks mp.spawn starts; codes are averaged over ranks."""

from pathlib import Path

from tests.real import made_data
from tests.real.recipe import HUNG, Judged, Recipe

RECIPE = Recipe(
    repository="rosinality/vq-vae-2-pytorch",
    commit="ef5f67c46f93624163776caec9e0d95063910eca",
    script="train_vqvae.py",
    kind="vision",
    launcher=(),
    nodes=1,
    arguments=("--n_gpu=4", "--size=64", "--epoch=1", "{data}"),
    install=("torchvision", "tqdm"),
    no_cpu="it needs CUDA",
    ends=HUNG,
    steps=1,
    findings=(
        Judged(
            "DC206",
            "distributed/launch.py:61",
            True,
            "a barrier comes before the line that binds each rank to its GPU, and torch 2.13 runs it on GPU 0",
        ),
        Judged(
            "DC704",
            "train_vqvae.py:71",
            True,
            "after the last batch of this run rank 0 alone calls the wrapped model, and DDP broadcasts its buffers there",
        ),
    ),
)


def make_data(folder: Path) -> None:
    made_data.image_folder(folder, images=64)
