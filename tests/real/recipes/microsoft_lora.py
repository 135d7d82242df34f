"""GPT-2 with low-rank matrices, on one node; DDP gets the default of --local_rank, which torchrun does not set."""

import json
import random
from pathlib import Path

from tests.real.recipe import Recipe

RECIPE = Recipe(
    repository="microsoft/LoRA",
    commit="c4593f060e6a368d7bb5af5273b8e42810cdef90",
    script="src/gpt2_ft.py",
    folder="examples/NLG",
    kind="language",
    nodes=1,
    arguments=(
        "--train_data={data}/train.jsonl",
        "--valid_data={data}/valid.jsonl",
        "--train_batch_size=2",
        "--valid_batch_size=2",
        "--seq_len=16",
        "--model_card=gpt2.sm",
        "--platform=local",
        "--lora_dim=4",
        "--lora_alpha=32",
        "--label_smooth=0.1",
        "--max_epoch=1",
        "--work_dir=trained",
    ),
    variables=(("PYTHONPATH", "../.."),),
    install=("numpy",),
    no_cpu="it binds a GPU",
    ends="src/model.py:260",
    steps=0,
)


def make_data(folder: Path) -> None:
    generator = random.Random(0)
    for name in ("train", "valid"):
        rows = [
            {key: [generator.randrange(1000) for _ in range(6)] for key in ("context", "completion")} for _ in range(64)
        ]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
