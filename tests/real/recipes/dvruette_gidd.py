"""A diffusion model of text: hydra, DDP, rank 0 prepares the data before the others."""

import json
import random
from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Judged, Recipe

RECIPE = Recipe(
    repository="dvruette/gidd",
    commit="f67acc961cc858cc69e8e6d91e7eb67a0a79151c",
    script="gidd/train.py",
    kind="diffusion",
    arguments=(
        "hydra.run.dir=out",
        "data.dataset_name={data}/text",
        "data.tokenizer_name={data}/model",
        "data.test_size=16",
        "data.num_workers=1",
        "data.trust_remote_code=False",
        "model=tiny",
        "model.hidden_size=32",
        "model.cond_dim=16",
        "model.n_blocks=2",
        "model.n_heads=2",
        "model.max_seq_len=32",
        "training.train_batch_size=8",
        "training.eval_batch_size=8",
        "training.num_train_steps=4",
        "training.warmup_steps=2",
        "training.compile_model=False",
        "training.dtype=fp32",
        "logging.num_eval_batches=1",
    ),
    variables=(("PYTHONPATH", "."),),
    install=("transformers==4.45.2", "datasets==3.2.0", "hydra-core", "heavyball", "einops", "wandb<0.20", "tqdm"),
    no_cpu="it binds a GPU",
    findings=(
        Judged("DC720", "gidd/train.py:330", True, "hydra writes its configuration from each rank into one folder"),
    ),
)


def make_data(folder: Path) -> None:
    made_data.tiny_gpt2(folder / "model")
    generator = random.Random(0)
    rows = [json.dumps({"text": " ".join(generator.choices("abcdef", k=20))}) for _ in range(200)]
    (folder / "text").mkdir()
    (folder / "text" / "train.jsonl").write_text("\n".join(rows) + "\n")
