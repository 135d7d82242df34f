"""Finetuning of a Llama 3 by a recipe of torchtune: FSDP2, a checkpoint of the hub's form, a loss in chunks."""

import base64
import json
from pathlib import Path

from tests.real.recipe import Recipe

#: Its tokenizer has fixed numbers for special tokens.
_WORDS = 128_256
RECIPE = Recipe(
    repository="pytorch/torchtune",
    commit="bd2a0fc7c31430972728494fa01aaeeb0ebf1ba1",
    script="recipes/full_finetune_distributed.py",
    kind="language",
    arguments=(
        "--config",
        "recipes/configs/llama3_2/1B_full.yaml",
        "output_dir=out",
        "tokenizer.path={data}/tokenizer.model",
        "tokenizer.max_seq_len=64",
        "dataset.source=json",
        "dataset.data_files={data}/alpaca.json",
        "dataset.split=train",
        "dataset_val.source=json",
        "dataset_val.data_files={data}/alpaca.json",
        "dataset_val.split=train",
        "batch_size=2",
        "model._component_=torchtune.models.llama3_2.llama3_2",
        f"model.vocab_size={_WORDS}",
        "model.num_layers=2",
        "model.num_heads=2",
        "model.num_kv_heads=2",
        "model.embed_dim=32",
        "model.max_seq_len=128",
        "model.intermediate_dim=64",
        "checkpointer.checkpoint_dir={data}/llama",
        "gradient_accumulation_steps=2",
    ),
    variables=(("PYTHONPATH", "."),),
    install=(
        "torchao",
        "torchdata",
        "datasets==3.2.0",
        "huggingface_hub",
        "safetensors",
        "kagglehub",
        "sentencepiece",
        "tiktoken",
        "blobfile",
        "tokenizers",
        "omegaconf",
        "transformers",
    ),
    no_cpu="its configuration is for GPUs",
)


def make_data(folder: Path) -> None:
    import transformers

    shape = transformers.LlamaConfig(
        vocab_size=_WORDS, max_position_embeddings=128, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, tie_word_embeddings=True,
    )  # fmt: skip
    transformers.LlamaForCausalLM(shape).save_pretrained(folder / "llama")
    lines = [f"{base64.b64encode(bytes([code])).decode()} {code}" for code in range(256)]
    (folder / "tokenizer.model").write_text("\n".join(lines) + "\n")
    rows = [{"instruction": f"Name {number}.", "input": "", "output": f"It is {number}."} for number in range(64)]
    (folder / "alpaca.json").write_text(json.dumps(rows))
