"""A recommender that is a language model; the training loop calls the module below the wrapper."""

import random
from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Judged, Recipe

RECIPE = Recipe(
    repository="agiresearch/OpenP5",
    commit="7f110389cd5ab51820e29e94a44b6db83df243fb",
    folder="src/src_t5",
    script="main.py",
    kind="recommender",
    launcher=(),
    nodes=1,
    # they become the name of its log, so none may hold a folder
    arguments=(
        "--datasets=tiny",
        "--data_path=.",
        "--backbone=t5-tiny",
        "--distributed=1",
        "--gpu=0,1,2,3",
        "--tasks=sequential,straightforward",
        "--item_indexing=sequential",
        "--prompt_file=../prompt.txt",
        "--sample_prompt=1",
        "--sample_num=1,1",
        "--max_his=5",
        "--epochs=1",
        "--batch_size=4",
        "--random_initialize=0",
        "--test_before_train=0",
        "--test_epoch=0",
        "--model_dir=model_out",
        "--log_dir=log",
    ),
    data=".",
    install=("transformers==4.45.2", "tqdm"),
    no_cpu="it starts a rank for each GPU",
    findings=(
        Judged(
            "DC763",
            "runner/DistributedRunner.py:85",
            True,
            "it calls model.module and not the wrapper, so DDP reduces no gradient and each rank trains alone",
        ),
    ),
)


def make_data(folder: Path) -> None:
    generator = random.Random(0)
    # all ranks make the last two if they are not there, and the second one fails
    for name in ("tiny", "model_out/tiny", "log/tiny"):
        (folder / name).mkdir(parents=True)
    items = [f"item{number}" for number in range(40)]
    lines = [" ".join([f"user{user}", *generator.sample(items, 8)]) for user in range(32)]
    (folder / "tiny" / "user_sequence.txt").write_text("\n".join(lines) + "\n")
    prompts = [
        f"{task}; {kind}; {{dataset}} user_{{user_id}} {history}, what is next ?; {{dataset}} {{target}}\n"
        for task, history in (("sequential", "has {history} "), ("straightforward", ""))
        for kind in ("seen", "unseen")
    ]
    (folder.parent / "prompt.txt").write_text("".join(prompts))
    made_data.tiny_t5(folder / "t5-tiny", ["what", "is", "next", "has", *map(str, range(1001, 1041))])
