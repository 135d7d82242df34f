"""Sparse autoencoders on the activations of a language model, trained with DDP."""

import json
import random
from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Recipe

RECIPE = Recipe(
    repository="EleutherAI/sparsify",
    commit="9d3b136c9217565af11089081444770e0d31673d",
    script="-m sparsify",
    kind="language",
    arguments=(
        "{data}/model",
        "{data}/text",
        "--ctx_len=64",
        "--batch_size=2",
        "--expansion_factor=4",
        "-k=4",
        "--log_to_wandb=False",
        "--data_preprocessing_num_proc=1",
    ),
    install=("transformers==4.45.2", "accelerate", "datasets==3.2.0", "natsort", "schedulefree", "simple-parsing"),
    no_cpu="it binds a GPU",
    # it passes DDP the global rank in device_ids, which node 1 has no GPU for
    ends="sparsify/trainer.py:411",
    steps=0,
)


def make_data(folder: Path) -> None:
    made_data.tiny_gpt2(folder / "model")
    generator = random.Random(0)
    rows = [json.dumps({"text": " ".join(generator.choices("abcdef", k=60))}) for _ in range(200)]
    (folder / "text").mkdir()
    (folder / "text" / "train.jsonl").write_text("\n".join(rows) + "\n")
