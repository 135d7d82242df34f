"""Semi-supervised learning on two loaders; started by torch.distributed.launch."""

from tests.real.recipe import Judged, Recipe

RECIPE = Recipe(
    repository="kekmodel/FixMatch-pytorch",
    commit="040be3b8950300b052f810df31a0c6c09561e09f",
    script="train.py",
    kind="vision",
    launcher=("python", "-m", "torch.distributed.launch"),
    arguments=("--dataset=cifar10", "--num-labeled=40", "--arch=wideresnet", "--batch-size=4", "--lr=0.03"),
    install=("torchvision", "tensorboard", "tqdm"),
    no_cpu="it needs CUDA",
    ends="finished with status 2",
    steps=0,
    findings=(Judged("DC207", "", True, "it declares --local_rank only, and the launcher passes --local-rank"),),
)
