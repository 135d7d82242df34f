"""Gradients averaged by hand on ranks that mp.spawn starts."""

from tests.real.recipe import Recipe

RECIPE = Recipe(
    repository="erfanMhi/distributed_training",
    commit="70eabf146a38b29e033fbc102def0aa709f6d000",
    script="src/playground/ddp_script.py",
    kind="toy",
    launcher=(),
    nodes=1,
    arguments=("--num-workers=0", "--epochs=1"),
    cpu_arguments=("--num-workers=0", "--epochs=1", "--world-size=2"),
)
