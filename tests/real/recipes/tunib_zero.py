"""A GPT-2 with ZeRO stage 1 of DeepSpeed, from a tutorial on large language models."""

import json
from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Recipe

RECIPE = Recipe(
    repository="tunib-ai/large-scale-lm-tutorials",
    commit="ca29ff9f945a59abcc3e3f1000c4d83de97973d4",
    script="../src/zero_args.py",
    folder="notebooks",
    kind="language",
    launcher=("deepspeed", "--num_gpus=4"),
    nodes=1,
    arguments=("--deepspeed_config=../src/zero_dp_config.json",),
    data=".",
    install=("deepspeed", "transformers==4.45.2", "datasets==3.2.0"),
    no_cpu="it moves its data to a GPU",
)


def make_data(folder: Path) -> None:
    """In the folders that it names like models and data sets of the hub."""
    made_data.tiny_gpt2(folder / "gpt2")
    (folder / "squad").mkdir()
    rows = [json.dumps({"context": f"the cat sees bird {number}"}) for number in range(400)]
    (folder / "squad" / "train.jsonl").write_text("\n".join(rows) + "\n")
