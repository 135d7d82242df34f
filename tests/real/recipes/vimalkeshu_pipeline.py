"""A transformer in a 1F1B schedule of its own messages."""

from tests.real.recipe import Recipe

RECIPE = Recipe(
    repository="vimalKeshu/distributed_training_fun",
    commit="e529e58286dbd33c7ff136805935a16d896ccd09",
    script="pipeline_parallelism/v1_1f1b.py",
    kind="language",
    arguments=("--num-steps=4", "--n-layers=4", "--d-model=32", "--n-heads=2", "--d-ff=64", "--batch-size=8"),
    no_cpu="it counts GPUs",
)
