"""Supervised finetuning of a Qwen by the Trainer of transformers, with DDP and its data from a pickled array."""

import random
from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Recipe

_COMMON = (
    "--model_name_or_path={data}/model",
    "--data_path={data}/tokens.npy",
    "--model_max_length=64",
    "--output_dir=out",
    "--num_train_epochs=1",
    "--per_device_train_batch_size=2",
    "--gradient_accumulation_steps=2",
    "--evaluation_strategy=no",
    "--save_strategy=steps",
    "--save_steps=2",
    "--learning_rate=5e-5",
    "--warmup_steps=2",
    "--lr_scheduler_type=cosine",
    "--logging_strategy=steps",
    "--logging_steps=1",
    "--report_to=none",
    "--truncate_source=False",
)
RECIPE = Recipe(
    repository="QwenLM/Qwen2.5-Coder",
    commit="d5ead97fea36bca3744e1a4c49e882f6fa2f406a",
    script="train.py",
    folder="finetuning/sft",
    kind="language",
    arguments=(*_COMMON, "--bf16=True", "--tf32=True"),
    cpu_arguments=(*_COMMON, "--use_cpu=True"),
    install=("transformers==4.45.2", "accelerate", "datasets==3.2.0", "peft==0.13.2", "jsonlines", "pandas"),
)


def make_data(folder: Path) -> None:
    import numpy

    made_data.tiny_llama(folder / "model", "Qwen2")
    generator = random.Random(0)
    rows = [[generator.randrange(200) for _ in range(generator.randrange(8, 30))] for _ in range(64)]
    samples = [{"input_ids": row, "label": [-100] * 4 + row[4:]} for row in rows]
    numpy.save(folder / "tokens.npy", numpy.array(samples, dtype=object), allow_pickle=True)
