"""A DDP written by hand, with buckets and hooks, and a sampler of its own, for a small transformer."""

import json
import random
from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Judged, Recipe

RECIPE = Recipe(
    repository="tanishqkumar/beyond-nanogpt",
    commit="cb1d7bc12e78ddb4e23d5565fd1fd147bc374d0d",
    script="train_ddp.py",
    kind="language",
    folder="mlsys",
    arguments=(
        "--len_dataset=64",
        "--batch_size=2",
        "--epochs=1",
        "--seq_len=32",
        "--hidden_dim=32",
        "--nlayers=2",
    ),
    data=".",
    install=("datasets==3.2.0", "transformers==4.45.2"),
    no_cpu="it takes a GPU for each rank",
    ends="train_ddp.py:66",
    steps=0,
    findings=(
        Judged("DC201", "train_ddp.py:66", True, "set_device gets the global rank, which node 1 has no GPU for"),
    ),
)


def make_data(folder: Path) -> None:
    """A tokenizer and stories in folders with the names that they have on the Hub."""
    made_data.tiny_gpt2(folder / "gpt2")
    generator = random.Random(0)
    stories = folder / "roneneldan" / "TinyStories"
    stories.mkdir(parents=True)
    rows = [json.dumps({"text": " ".join(generator.choices("abcdef", k=40))}) for _ in range(64)]
    (stories / "train.jsonl").write_text("\n".join(rows) + "\n")
