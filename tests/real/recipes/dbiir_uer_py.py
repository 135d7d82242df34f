"""Pretraining of a small GPT-2 from a file of pickled samples; mp.spawn with a list of ranks."""

import json
import pickle
import random
from pathlib import Path

from tests.real.recipe import Recipe

_MODEL = {
    "emb_size": 32,
    "feedforward_size": 64,
    "hidden_size": 32,
    "hidden_act": "gelu_fast",
    "heads_num": 2,
    "layers_num": 2,
    "max_seq_length": 64,
    "dropout": 0.1,
    "data_processor": "lm",
    "embedding": ["word", "pos"],
    "remove_embedding_layernorm": True,
    "encoder": "transformer",
    "mask": "causal",
    "layernorm_positioning": "pre",
    "target": ["lm"],
    "tie_weights": True,
}
RECIPE = Recipe(
    repository="dbiir/UER-py",
    commit="5743050cc41f0f21986c9f938db5ac1726052629",
    script="pretrain.py",
    kind="language",
    launcher=(),
    nodes=1,
    # its reading of the configuration takes no `--name=value`
    arguments=(
        "--dataset_path",
        "{data}/dataset.pt",
        "--vocab_path",
        "models/google_zh_vocab.txt",
        "--config_path",
        "{data}/model.json",
        "--output_model_path",
        "models/output.bin",
        "--world_size",
        "4",
        "--gpu_ranks",
        "0",
        "1",
        "2",
        "3",
        "--total_steps",
        "6",
        "--save_checkpoint_steps",
        "3",
        "--report_steps",
        "2",
        "--batch_size",
        "2",
    ),
    install=("numpy", "regex", "six"),
    no_cpu="it starts a rank for each GPU",
)


def make_data(folder: Path) -> None:
    """Its preprocessing writes one pickle after another: token numbers with the length of the padding, and a length."""
    generator = random.Random(0)
    with (folder / "dataset.pt").open("wb") as file:
        for _ in range(200):
            pickle.dump((([generator.randrange(106, 600) for _ in range(33)], 0), (32,)), file)
    (folder / "model.json").write_text(json.dumps(_MODEL))
