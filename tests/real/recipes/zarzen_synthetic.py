"""A benchmark with random images, started by torch.distributed.launch on one node."""

from tests.real.recipe import Judged, Recipe

RECIPE = Recipe(
    repository="zarzen/distributed-training",
    commit="91d90d2922d4608c3011c58845c16a3f962152d0",
    script="test_scripts/synthesis/pytorch_synthetic_benchmark.py",
    kind="vision",
    launcher=("python", "-m", "torch.distributed.launch"),
    nodes=1,
    arguments=("--model=squeezenet1_1", "--batch-size=1", "--world-size=4", "--url-port=tcp://127.0.0.1:23456"),
    install=("torchvision",),
    no_cpu="it binds a GPU",
    ends="finished with status 2",
    steps=0,
    findings=(
        Judged(
            "DC207",
            "",
            True,
            "torch.distributed.launch passes --local-rank from torch 2.0 on, and the script only knows --local_rank",
        ),
    ),
)
