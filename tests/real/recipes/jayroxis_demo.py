"""The demo of torch's tutorial on a fixed list of GPUs; starts its ranks by mp.spawn."""

from tests.real.recipe import Recipe

RECIPE = Recipe(
    repository="jayroxis/pytorch-DDP-tutorial",
    commit="021d0298238ec8e5e1321ff21d71ac9e2abbd814",
    script="demo.py",
    kind="toy",
    launcher=(),
    nodes=1,
    no_cpu="it needs two GPUs",
    ends="demo.py:57",
    steps=0,
)
