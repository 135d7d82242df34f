"""Finetuning of a Llama with FSDP, activation checkpointing and sharded checkpoints; only rank 0 loads weights."""

from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Recipe

_SETTINGS = """
model: {folder}/llama
enable_wandb_logging: False
wandb_config: {{project: a, name: b, mode: offline}}
train_parameters:
  output_dir: out
  max_seq_len: 64
  epochs: 1
  seed: 11
  sharding_strategy: FULL_SHARD
  use_mp: True
  use_activation_checkpointing: True
  use_flash_attention: False
  low_cpu_mem_usage: True
  max_grad_norm: 1
  gradient_accumulation_steps: 2
  optimizer: {{lr: 2.0e-5, weight_decay: 0.1, betas: [0.9, 0.95], eps: 1.0e-5}}
  lr_scheduler_type: cosine
  warmup_ratio: 0.05
  checkpointing_enabled: True
  logging_steps: 2
  save_frequency: 0.25
dataset: {{ignore_index: -100, eval_bs: 2, train_bs: 2, train_ds: {folder}/train, eval_ds: {folder}/test}}
"""
RECIPE = Recipe(
    repository="VectorInstitute/vectorlm",
    commit="9045f08ac1af38c13100cfabdd17412f57dbffd2",
    script="examples/llama_example.py",
    kind="language",
    arguments=("--yaml_path={data}/config.yaml",),
    variables=(("PYTHONPATH", "."),),
    install=("transformers==4.45.2", "datasets==3.2.0", "peft==0.13.2", "python-box", "wandb<0.20"),
    no_cpu="it binds a GPU",
)


def make_data(folder: Path) -> None:
    import datasets

    made_data.tiny_llama(folder / "llama")
    rows = [[(number + place) % 200 for place in range(32)] for number in range(64)]
    for part in ("train", "test"):
        columns = {"input_ids": rows, "labels": rows, "attention_mask": [[1] * 32] * 64, "id": list(range(64))}
        datasets.Dataset.from_dict(columns).save_to_disk(folder / part)
    (folder / "config.yaml").write_text(_SETTINGS.format(folder=folder))
