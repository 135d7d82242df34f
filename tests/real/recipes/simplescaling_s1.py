"""Finetuning of a Qwen on reasoning traces, with the SFTTrainer of TRL and FSDP."""

import json
from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Judged, Recipe

_COMMON = (
    "--block_size=64",
    "--per_device_train_batch_size=2",
    "--per_device_eval_batch_size=2",
    "--gradient_accumulation_steps=1",
    "--num_train_epochs=1",
    "--train_file_path={data}/text",
    "--model_name={data}/Qwen",
    "--warmup_ratio=0.05",
    "--eval_strategy=no",
    "--logging_steps=1",
    "--save_strategy=no",
    "--lr_scheduler_type=cosine",
    "--learning_rate=1e-5",
    "--output_dir=ckpts",
    "--push_to_hub=false",
    "--save_only_model=True",
    "--report_to=none",
)
RECIPE = Recipe(
    repository="simplescaling/s1",
    commit="77272c6e925d610257a50b520bad15330b513389",
    script="train/sft.py",
    kind="language",
    arguments=(
        *_COMMON,
        "--fsdp=full_shard auto_wrap",
        "--fsdp_config=train/fsdp_config_qwen.json",
        "--bf16=True",
    ),
    cpu_arguments=(*_COMMON, "--use_cpu=True"),
    install=("transformers==4.45.2", "accelerate", "datasets==3.2.0", "trl==0.11.4"),
    findings=(
        Judged("DC720", "train/sft.py:79", True, "all ranks save the tokenizer into one folder at the same time"),
    ),
)


def make_data(folder: Path) -> None:
    made_data.tiny_llama(folder / "Qwen", "Qwen2")
    (folder / "text").mkdir()
    rows = [
        json.dumps({"text": f"<|im_start|>user\n{number}?\n<|im_start|>assistant\n{number + 1}"})
        for number in range(64)
    ]
    (folder / "text" / "train.jsonl").write_text("\n".join(rows) + "\n")
