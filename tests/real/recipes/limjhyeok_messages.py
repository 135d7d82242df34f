"""Rank 0 sends a number to the other ranks."""

from tests.real.recipe import Recipe

RECIPE = Recipe(
    repository="limJhyeok/distributed-training-learning",
    commit="6f398b005f15fd12d3e101cdf5e7338d3d2d2031",
    script="src/msg_pass.py",
    kind="toy",
    ends="hung",
    steps=0,
)
