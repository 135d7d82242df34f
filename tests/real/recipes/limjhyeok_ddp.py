"""One step of DDP on random numbers, with a log of each rank."""

from tests.real.recipe import Judged, Recipe

RECIPE = Recipe(
    repository="limJhyeok/distributed-training-learning",
    commit="6f398b005f15fd12d3e101cdf5e7338d3d2d2031",
    script="src/ddp_train.py",
    kind="toy",
    no_cpu="NCCL only",
    ends="src/ddp_train.py:31",
    steps=0,
    findings=(
        Judged(
            "DC201",
            "src/ddp_train.py:31",
            True,
            "rank 2 on the second node of 2 GPUs has no GPU 2, and the script stops there with GPUs as well",
        ),
    ),
)
