"""A diffusion model with half precision, gradient rounds of its own and averages of the weights."""

import json
from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Recipe

RECIPE = Recipe(
    repository="NVlabs/edm2",
    commit="4bf8162f601bcc09472ce8a32dd0cbe8889dc8fc",
    script="train_edm2.py",
    kind="diffusion",
    arguments=(
        "--outdir={data}/out",
        "--data={data}/images",
        "--preset=edm2-img64-xs",
        "--channels=64",
        "--batch=8",
        "--fp16=False",
        "--status=8",
        "--snapshot=0",
        "--checkpoint=0",
    ),
    install=("click", "pillow", "psutil", "requests", "scipy", "tqdm"),
    no_cpu="it needs CUDA",
    # its sampler passes the data set to torch's Sampler, which takes no arguments any more
    ends="torch_utils/misc.py:128",
    steps=0,
)


def make_data(folder: Path) -> None:
    """Images and their classes, as its dataset_tool.py writes them."""
    labels = []
    for number in range(24):
        name = f"00000/img{number:08}.png"
        made_data.png(folder / "images" / name, (16, 16), seed=number)
        labels.append([name, number % 2])
    (folder / "images" / "dataset.json").write_text(json.dumps({"labels": labels}))
