"""A vision transformer of 0.3 G parameters with FSDP."""

from tests.real.recipe import Recipe

RECIPE = Recipe(
    repository="crusoecloud/distributed-torchrun-on-slurm",
    commit="d8d776a35521bc767f24ba6f85e1af55a3fafdd6",
    script="fsdp-training/train_fsdp.py",
    kind="vision",
    arguments=("--epochs=1", "--batch-size=1", "--image-size=32", "--num-samples=16"),
    no_cpu="it binds a GPU",
)
