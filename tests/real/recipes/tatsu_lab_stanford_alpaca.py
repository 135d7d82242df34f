"""Instruction tuning by the Trainer of transformers, with FSDP as its README launches it."""

import json
import random
from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Recipe

_COMMON = (
    "--model_name_or_path={data}/model",
    "--data_path={data}/alpaca.json",
    "--output_dir=out",
    "--num_train_epochs=1",
    "--per_device_train_batch_size=2",
    "--gradient_accumulation_steps=2",
    "--save_strategy=no",
    "--learning_rate=2e-5",
    "--lr_scheduler_type=cosine",
    "--logging_steps=1",
    "--report_to=none",
    "--model_max_length=128",
)
RECIPE = Recipe(
    repository="tatsu-lab/stanford_alpaca",
    commit="761dc5bfbdeeffa89b8bff5d038781a4055f796a",
    script="train.py",
    kind="language",
    arguments=(
        *_COMMON,
        "--bf16=True",
        "--tf32=True",
        "--fsdp=full_shard auto_wrap",
        "--fsdp_transformer_layer_cls_to_wrap=GPT2Block",
    ),
    cpu_arguments=(*_COMMON, "--use_cpu=True"),
    # its utils.py imports a client of a web service at the top
    variables=(("PYTHONPATH", "{data}/stand_in"),),
    install=("transformers==4.45.2", "accelerate"),
)


def make_data(folder: Path) -> None:
    made_data.tiny_gpt2(folder / "model")
    generator = random.Random(0)
    rows = [
        {"instruction": f"Name number {number}.", "input": "", "output": " ".join(generator.choices("abcdef", k=9))}
        for number in range(64)
    ]
    (folder / "alpaca.json").write_text(json.dumps(rows))
    made_data.stand_in(folder / "stand_in", "openai.openai_object", "OpenAIObject")
