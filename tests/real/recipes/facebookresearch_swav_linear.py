"""A linear classifier on a frozen ResNet-50; only the classifier is wrapped."""

from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Recipe

RECIPE = Recipe(
    repository="facebookresearch/swav",
    commit="06b1b7cbaf6ba2a792300d79c7299db98b93b7f9",
    script="eval_linear.py",
    kind="vision",
    arguments=("--data_path={data}", "--dump_path={data}/dump", "--batch_size=2", "--workers=1", "--epochs=1"),
    install=("torchvision", "scipy", "pandas"),
    no_cpu="it binds a GPU",
    ends="src/utils.py:194",
    steps=1,
)


def make_data(folder: Path) -> None:
    made_data.imagenet(folder, images=12)
    (folder / "dump").mkdir()
