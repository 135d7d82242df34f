"""A vector-quantized autoencoder whose ranks mp.spawn starts; codes are averaged over ranks."""

from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Recipe

RECIPE = Recipe(
    repository="rosinality/vq-vae-2-pytorch",
    commit="ef5f67c46f93624163776caec9e0d95063910eca",
    script="train_vqvae.py",
    kind="vision",
    launcher=(),
    nodes=1,
    arguments=("--n_gpu=4", "--size=32", "--epoch=4", "{data}"),
    install=("torchvision", "tqdm"),
    no_cpu="it needs CUDA",
)


def make_data(folder: Path) -> None:
    made_data.image_folder(folder, images=8, size=(32, 32))
