"""A GPT in two pipeline stages with tensor parallelism in each, by hand: isend, irecv, broadcasts in a group of two."""

import random
from array import array
from pathlib import Path

from tests.real.recipe import Recipe

COMMIT = "bce9fb38a4e104ab77d2365547014d5194a4ae6c"
COMMON = (
    "--data_dir={data}",
    "--n_layer=4",
    "--n_head=2",
    "--n_embed=32",
    "--batch_size=2",
    "--grad_accum_steps=4",
    "--block_size=16",
    "--max_iters=4",
    "--eval_interval=2",
    "--eval_iters=2",
    "--save_interval=2",
)
RECIPE = Recipe(
    repository="ChinmayK0607/heiretsu",
    commit=COMMIT,
    script="train.py",
    kind="language",
    arguments=(*COMMON, "--tp=2", "--pp=2"),
    cpu_arguments=(*COMMON, "--tp=1", "--pp=2", "--device=cpu", "--dist_backend=gloo"),
    install=("numpy",),
)


def make_data(folder: Path) -> None:
    """Token numbers of 16 bits, in two files for training and one for evaluation."""
    generator = random.Random(0)
    for name in ("train_000000", "train_000001", "val_000000"):
        (folder / f"fineweb_{name}.bin").write_bytes(
            array("H", (generator.randrange(500) for _ in range(4000))).tobytes()
        )
