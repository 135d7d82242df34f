"""A diffusion model with a U-Net, an average of the weights and gradient accumulation."""

import json
from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Recipe

RECIPE = Recipe(
    repository="tqch/ddpm-torch",
    commit="b60eb8deee899900c28525fd77ff53cdd26d6558",
    script="train.py",
    kind="diffusion",
    arguments=(
        "--distributed",
        "--dataset=mnist",
        "--root={data}",
        "--config-path={data}/mnist.json",
        "--batch-size=8",
        "--epochs=1",
        "--use-ema",
        "--num-workers=1",
        "--num-samples=0",
    ),
    install=("torchvision", "tqdm", "matplotlib"),
    no_cpu="it needs CUDA for more than one rank",
)


def make_data(folder: Path) -> None:
    made_data.mnist(folder)
    model = {
        "hid_channels": 32, "ch_multipliers": [1, 2], "num_res_blocks": 1, "apply_attn": [False, True], "drop_rate": 0.1
    }  # fmt: skip
    settings = {
        "dataset": "mnist",
        "model": model,
        "train": {"batch_size": 8, "grad_norm": 1.0, "epochs": 1, "warmup": 4},
    }
    (folder / "mnist.json").write_text(json.dumps(settings))
