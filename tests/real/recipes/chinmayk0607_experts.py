"""A GPT with experts on two ranks each and two replicas, whose gradients it averages by hand; all_to_all of tokens."""

from tests.real.recipe import Recipe
from tests.real.recipes import chinmayk0607_pipeline

COMMON = (*chinmayk0607_pipeline.COMMON, "--num_experts=4", "--top_k=2", "--moe_freq=2")
RECIPE = Recipe(
    repository="ChinmayK0607/heiretsu",
    commit=chinmayk0607_pipeline.COMMIT,
    script="train.py",
    kind="language",
    arguments=(*COMMON, "--dp=2", "--ep=2", "--amp=bf16"),
    cpu_arguments=(*COMMON, "--dp=1", "--ep=2", "--device=cpu", "--dist_backend=gloo"),
    install=("numpy",),
)
make_data = chinmayk0607_pipeline.make_data
