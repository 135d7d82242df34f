"""Pretraining of a small Llama with ZeRO stage 2 of DeepSpeed, started by its launcher."""

import json
from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Recipe

_SETTINGS = {
    "train_batch_size": 8,
    "train_micro_batch_size_per_gpu": 1,
    "gradient_accumulation_steps": 2,
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": 2, "overlap_comm": True},
    "gradient_clipping": 1.0,
}
RECIPE = Recipe(
    repository="mikustojk/LLaMA2-And-DeepSpeed-Training",
    commit="db7a48d05b823f08f7976994a66101a9fd9c9250",
    script="pretrain_ds.py",
    kind="language",
    launcher=("deepspeed",),
    arguments=(
        "--data_path={data}/text.jsonl",
        "--tokenizer_path={data}/model",
        "--deepspeed_config={data}/settings.json",
        "--max_length=32",
        "--dim=32",
        "--n_layers=2",
        "--n_heads=2",
        "--n_kv_heads=2",
        "--max_steps=6",
        "--save_every=2",
    ),
    install=("deepspeed", "transformers==4.45.2"),
    no_cpu="its configuration is for GPUs",
)


def make_data(folder: Path) -> None:
    """It wants a tokenizer of 6144 tokens."""
    import transformers

    made_data.tiny_gpt2(folder / "model")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "model")
    tokenizer.add_tokens([f"<{number}>" for number in range(6144 - len(tokenizer))])
    tokenizer.save_pretrained(folder / "model")
    rows = [json.dumps({"text": f"the cat sees bird {number}"}) for number in range(64)]
    (folder / "text.jsonl").write_text("\n".join(rows) + "\n")
    (folder / "settings.json").write_text(json.dumps(_SETTINGS))
