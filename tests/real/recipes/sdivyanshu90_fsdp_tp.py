"""FSDP and tensor parallelism on a mesh of two dimensions: four ranks fail under torch 2.13, also with plain torchrun."""

from tests.real.recipe import Recipe

RECIPE = Recipe(
    repository="sdivyanshu90/build-your-own-distributed-training",
    commit="fb4f29a858749029de3d6d3e842f5394d34a67f6",
    script="train.py",
    kind="language",
    arguments=("--config=config/test_tiny.yaml", "--tp-size=2", "--max-steps=8", "--backend=nccl"),
    cpu_arguments=("--config=config/test_tiny.yaml", "--tp-size=2", "--max-steps=8", "--backend=gloo"),
    install=("pyyaml",),
    ends="src/training/loop.py:158",
    steps=0,
)
