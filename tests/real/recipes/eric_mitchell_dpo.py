"""Preference tuning (DPO) of a language model with FSDP; hydra reads its options, mp.spawn starts its ranks."""

import json
import random
from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Recipe

RECIPE = Recipe(
    repository="eric-mitchell/direct-preference-optimization",
    commit="f8b8c0f49dc92a430bae41585f9d467d3618fe2f",
    script="train.py",
    kind="language",
    launcher=(),
    nodes=1,
    arguments=(
        "model=blank_model",
        "model.name_or_path={data}/../../model",
        "model.block_name=GPT2Block",
        "datasets=[hh]",
        "loss=dpo",
        "loss.beta=0.1",
        "exp_name=tiny",
        "local_dirs=[.cache]",
        "trainer=FSDPTrainer",
        "batch_size=8",
        "eval_batch_size=8",
        "n_eval_examples=8",
        "n_eval_model_samples=8",
        "max_length=64",
        "max_prompt_length=32",
        "sample_during_eval=false",
        "wandb.enabled=false",
    ),
    data="Anthropic/hh-rlhf",
    # its trainers.py imports a library for another trainer at the top
    variables=(("PYTHONPATH", "{data}/../../stand_in"),),
    install=("transformers==4.45.2", "accelerate", "datasets==3.2.0", "hydra-core", "beautifulsoup4", "wandb<0.20"),
    no_cpu="it starts a rank for each GPU",
    # it seeds Python's generator with an integer of numpy, which Python 3.11 refuses
    ends="utils.py:169",
    steps=0,
)


def make_data(folder: Path) -> None:
    """Pairs of answers in a folder with the name of the data set on the Hub, and a tiny model."""
    root = folder.parent.parent
    made_data.tiny_gpt2(root / "model")
    made_data.stand_in(root / "stand_in", "tensor_parallel")
    generator = random.Random(0)
    for part in ("train", "test"):
        rows = []
        for number in range(64):
            prompt = f"\n\nHuman: name {number}\n\nAssistant:"
            chosen, rejected = (" ".join(generator.choices("abcdef", k=6)) for _ in range(2))
            rows.append(json.dumps({"chosen": f"{prompt} {chosen}", "rejected": f"{prompt} {rejected}"}))
        (folder / f"{part}.jsonl").write_text("\n".join(rows) + "\n")
