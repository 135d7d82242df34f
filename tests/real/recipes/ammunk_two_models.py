"""Two models with DDP, two optimizers, a second group with gloo, and a tracker."""

from tests.real.recipe import Recipe

RECIPE = Recipe(
    repository="ammunk/distributed-training-pytorch",
    commit="12b22a8d30949a412d96730b1af1ec8da2a192b9",
    script="demo.py",
    kind="toy",
    arguments=("--torchrun", "--dry_run"),
    install=("wandb<0.20", "tqdm"),
    no_cpu="it calls .cuda()",
)
