"""Masked auto-encoder for retrieval: a BERT with the Trainer of transformers, whose `log` and `_save` it overrides."""

import random
from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Recipe

_COMMON = (
    "--output_dir=out",
    "--data_dir={data}/text",
    "--do_train=True",
    "--model_name_or_path={data}/bert",
    "--pretrain_method=retromae",
    "--per_device_train_batch_size=4",
    "--max_seq_length=32",
    "--num_train_epochs=1",
    "--save_steps=2",
    "--report_to=none",
)
RECIPE = Recipe(
    repository="staoxiao/RetroMAE",
    commit="ee375876a5e571617e37dd43450decc7865e2a07",
    script="-m pretrain.run",
    folder="src",
    kind="language",
    arguments=_COMMON,
    cpu_arguments=(*_COMMON, "--use_cpu=True"),
    variables=(("PYTHONPATH", "."),),
    install=("transformers==4.45.2", "accelerate", "datasets==3.2.0"),
)


def make_data(folder: Path) -> None:
    import datasets

    made_data.tiny_bert(folder / "bert")
    generator = random.Random(0)
    rows = [[generator.randrange(5, 25) for _ in range(20)] for _ in range(96)]
    datasets.Dataset.from_dict({"token_ids": rows}).save_to_disk(folder / "text")
