"""A perceptron with DDP, GradScaler and a barrier after each epoch; random images where torchvision is missing."""

from pathlib import Path

from tests.real.recipe import Recipe

RECIPE = Recipe(
    repository="TylrDn/pytorch-ddp-nccl-distributed",
    commit="4f514abfa194ed8d9cb2b81a62e4e212658cb23c",
    script="train/main.py",
    kind="vision",
    arguments=("--batch-size=16", "--mixed-precision", "--data-path={data}"),
    variables=(("PYTHONPATH", "{data}"),),
    no_cpu="it binds a GPU",
)


def make_data(folder: Path) -> None:
    (folder / "torchvision.py").write_text("raise ImportError('not installed')\n")
