"""One step of DDP on random numbers, with a log of each rank."""

from tests.real.recipe import Recipe

RECIPE = Recipe(
    repository="limJhyeok/distributed-training-learning",
    commit="6f398b005f15fd12d3e101cdf5e7338d3d2d2031",
    script="src/ddp_train.py",
    kind="toy",
    no_cpu="NCCL only",
)
