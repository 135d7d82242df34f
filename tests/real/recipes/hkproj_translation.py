"""A translation transformer that DDP trains on sentence pairs of the Hub, and rank 0 validates after each epoch."""

import json
import random
from pathlib import Path

from tests.real.recipe import Recipe

RECIPE = Recipe(
    repository="hkproj/pytorch-transformer-distributed",
    commit="f73abd3f446bd5484c553871521d669b43c887fd",
    script="train.py",
    kind="language",
    arguments=("--batch_size=2", "--num_epochs=1", "--seq_len=32", "--d_model=32"),
    data="opus_books",
    install=("datasets==3.2.0", "tokenizers", "torchmetrics", "wandb<0.20", "tqdm"),
    no_cpu="it needs CUDA",
)


def make_data(folder: Path) -> None:
    """Sentence pairs in a folder with the name of the data set on the Hub, and its configuration *en-it*."""
    generator = random.Random(0)
    rows = [
        {"translation": {language: " ".join(generator.choices("abcdef", k=8)) for language in ("en", "it")}}
        for _ in range(80)
    ]
    (folder / "en-it.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "README.md").write_text("---\nconfigs:\n- config_name: en-it\n  data_files: en-it.jsonl\n---\n")
