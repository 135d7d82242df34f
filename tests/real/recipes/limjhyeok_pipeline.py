"""A transformer in a GPipe schedule, one stage for each GPU of a node."""

from tests.real.recipe import Recipe

RECIPE = Recipe(
    repository="limJhyeok/distributed-training-learning",
    commit="6f398b005f15fd12d3e101cdf5e7338d3d2d2031",
    script="src/pp_train.py",
    kind="language",
    nodes=1,
    no_cpu="NCCL only",
    ends="finished",
    steps=0,
    options=("--nproc-per-node=2", "--gpus-per-node=2"),
)
