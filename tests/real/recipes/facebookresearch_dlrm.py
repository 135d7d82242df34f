"""A recommender: tables shared out among the ranks, all_to_all, and DDP for the dense part; data of its own."""

from tests.real.recipe import Judged, Recipe

_SMALL = (
    "--arch-embedding-size=64-64-64-64",
    "--arch-sparse-feature-size=8",
    "--arch-mlp-bot=8-16-8",
    "--arch-mlp-top=32-8-1",
    "--mini-batch-size=16",
    "--data-size=128",
    "--num-batches=6",
    "--print-freq=2",
)
RECIPE = Recipe(
    repository="facebookresearch/dlrm",
    commit="090956ee2319ddd349a42232958aefccfe3f7b0a",
    script="dlrm_s_pytorch.py",
    kind="recommenders",
    arguments=(*_SMALL, "--use-gpu", "--dist-backend=nccl"),
    cpu_arguments=(*_SMALL, "--dist-backend=gloo"),
    install=("numpy", "scikit-learn", "tensorboard", "tqdm"),
    findings=(Judged("DC721", "dlrm_s_pytorch.py:1510", True, "all ranks write events to one folder, run_kaggle_pt"),),
)
