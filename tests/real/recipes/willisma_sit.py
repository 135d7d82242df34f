"""A diffusion transformer on latents of a tiny autoencoder, with an average of the weights."""

from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Recipe

RECIPE = Recipe(
    repository="willisma/SiT",
    commit="947f95bd3a510e9af441d38c1e9f72e0eee873c5",
    script="train.py",
    kind="diffusion",
    arguments=(
        "--data-path={data}/images",
        "--model=SiT-S/8",
        "--global-batch-size=4",
        "--epochs=1",
        "--num-workers=1",
        "--log-every=2",
    ),
    variables=(("ENTITY", "none"), ("PROJECT", "none")),
    data="stabilityai/sd-vae-ft-ema",
    install=("diffusers", "timm>=0.9", "torchdiffeq", "torchvision", "wandb<0.20"),
    no_cpu="it binds a GPU",
)


def make_data(folder: Path) -> None:
    import diffusers

    diffusers.AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        block_out_channels=(8,) * 4,
        norm_num_groups=4,
        latent_channels=4,
    ).save_pretrained(folder)
    made_data.image_folder(folder / "images", images=24)
