"""A small Llama with DDP, gradient accumulation and a DataLoader over memory maps."""

import random
import struct
from pathlib import Path

from tests.real.recipe import Recipe

_SMALL = (
    "--vocab_source=custom",
    "--vocab_size=64",
    "--batch_size=2",
    "--max_seq_len=32",
    "--dim=32",
    "--n_layers=2",
    "--n_heads=2",
    "--n_kv_heads=2",
    "--eval_iters=2",
    "--max_iters=4",
)
RECIPE = Recipe(
    repository="karpathy/llama2.c",
    commit="350e04fe35433e6d2941dce5a1f53308f87058eb",
    script="train.py",
    kind="language",
    arguments=_SMALL,
    data="data",
    install=("numpy", "requests", "sentencepiece", "tqdm"),
    no_cpu="it chooses a GPU for each rank",
)


def make_data(folder: Path) -> None:
    """Tokens of a vocabulary of 64 words, in two shards."""
    generator = random.Random(0)
    shards = folder / "tok64"
    shards.mkdir(parents=True)
    for number in range(2):
        tokens = [generator.randrange(64) for _ in range(2000)]
        (shards / f"data{number:02}.bin").write_bytes(struct.pack(f"<{len(tokens)}H", *tokens))
