"""A reward model with Accelerate and gradient accumulation; each rank shuffles the data with a seed of its own."""

import json
from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Recipe

_COMMON = (
    "--base_model=EleutherAI/pythia-160m",
    "--sft_model_path=EleutherAI/pythia-160m",
    "--query_dataset={data}/queries",
    "--label_dataset={data}/labels",
    "--total_episodes=64",
    "--gradient_accumulation_steps=2",
    "--local_micro_batch_size=2",
)
RECIPE = Recipe(
    repository="vwxyzjn/summarize_from_feedback_details",
    commit="ee77a9abc31f5338365ee087945c5bcafac7f1ca",
    script="summarize_from_feedback_details/reward.py",
    kind="language",
    launcher=("accelerate", "launch"),
    arguments=_COMMON,
    data=".",
    install=("transformers==4.45.2", "accelerate", "datasets==3.2.0", "tyro", "rich", "pandas", "tensorboard"),
)


def make_data(folder: Path) -> None:
    """The model is in the folder that the script names like one of the hub."""
    made_data.tiny_llama(folder / "EleutherAI" / "pythia-160m", "GPTNeoX")
    tokens = {
        name: [[(number + place) % 200 for place in range(length)] for number in range(64)]
        for name, length in (
            ("query_token", 16),
            ("chosen_token", 8),
            ("rejected_token", 8),
            ("query_chosen_token", 24),
            ("query_rejected_token", 24),
            ("reference_response_token", 8),
            ("query_reference_response_token", 24),
        )
    }
    rows = [
        {
            **{name: column[number] for name, column in tokens.items()},
            "batch": "a",
            "split": "b",
            "choice": 0,
            "extra": {"confidence": 1},
            "chosen_policy": "c",
            "rejected_policy": "d",
            "policies": "e",
        }
        for number in range(64)
    ]
    splits = ("train", "validation", "validation_cnndm")
    files = "".join(f"  - split: {split}\n    path: {split}.jsonl\n" for split in splits)
    (folder / "labels").mkdir()
    (folder / "labels" / "README.md").write_text(f"---\nconfigs:\n- config_name: default\n  data_files:\n{files}---\n")
    for path in ("queries/train", "labels/train", "labels/validation", "labels/validation_cnndm"):
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / f"{path}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
