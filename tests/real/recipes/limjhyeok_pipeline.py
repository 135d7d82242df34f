"""A transformer in a GPipe schedule, one stage for each GPU of a node."""

from tests.real.recipe import Judged, Recipe

RECIPE = Recipe(
    repository="limJhyeok/distributed-training-learning",
    commit="6f398b005f15fd12d3e101cdf5e7338d3d2d2031",
    script="src/pp_train.py",
    kind="language",
    nodes=1,
    no_cpu="NCCL only",
    options=("--nproc-per-node=2", "--gpus-per-node=2"),
    ends="src/pp_train.py:62",
    steps=0,
    findings=(
        Judged(
            "DC206",
            "src/pp_train.py:18",
            True,
            "no line binds a rank to its GPU, and torch 2.13 runs barriers without a device on GPU 0",
        ),
    ),
)
