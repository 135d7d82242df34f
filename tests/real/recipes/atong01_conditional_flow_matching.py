"""Flow matching on CIFAR-10; it sets the address of the group itself."""

from pathlib import Path

from tests.real import made_data
from tests.real.recipe import HUNG, Judged, Recipe

RECIPE = Recipe(
    repository="atong01/conditional-flow-matching",
    commit="cacd4dc8a5b6f50de63780e8f73754c9371f15db",
    folder="examples/images/cifar10",
    script="train_cifar10_ddp.py",
    kind="diffusion",
    nodes=1,
    arguments=(
        "--parallel",
        "--num_channel=32",
        "--batch_size=8",
        "--num_workers=1",
        "--total_steps=4",
        "--warmup=2",
        "--save_step=0",
    ),
    # the solver only makes samples
    variables=(("PYTHONPATH", "{data}/stand_in:../../.."),),
    install=("torchvision", "POT", "scipy", "scikit-learn", "absl-py", "tqdm", "einops", "torchdiffeq"),
    no_cpu="it binds a GPU",
    ends=HUNG,
    steps=0,
    findings=(
        Judged(
            "DC511",
            "utils_cifar.py:35",
            True,
            "it sets another MASTER_PORT, and torchrun has started the store on the port of its own",
        ),
    ),
)


def make_data(folder: Path) -> None:
    made_data.stand_in(folder / "stand_in", "torchdyn.core", "NeuralODE")
