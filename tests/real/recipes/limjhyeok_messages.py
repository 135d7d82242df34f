"""Rank 0 sends a number to the other ranks."""

from tests.real.recipe import Judged, Recipe

RECIPE = Recipe(
    repository="limJhyeok/distributed-training-learning",
    commit="6f398b005f15fd12d3e101cdf5e7338d3d2d2031",
    script="src/msg_pass.py",
    kind="toy",
    ends="src/msg_pass.py:44",
    steps=0,
    findings=(
        Judged(
            "DC511",
            "src/msg_pass.py:44",
            True,
            "rank 0 sends a message for each other rank, all of them to rank 1, which receives one and ends",
        ),
    ),
)
