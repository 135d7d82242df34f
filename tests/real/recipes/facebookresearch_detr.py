"""A detector: a transformer behind ResNet-18 with frozen norms."""

from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Recipe

RECIPE = Recipe(
    repository="facebookresearch/detr",
    commit="29901c51d7fe8712168b8d0d64351170bc0f83e0",
    script="main.py",
    kind="vision",
    arguments=(
        "--coco_path={data}",
        "--backbone=resnet18",
        "--enc_layers=1",
        "--dec_layers=1",
        "--batch_size=1",
        "--epochs=1",
        "--num_workers=1",
    ),
    variables=(("TORCH_HOME", "{data}/torch"),),
    install=("torchvision", "pycocotools", "scipy"),
    no_cpu="it binds a GPU",
)


def make_data(folder: Path) -> None:
    made_data.coco(folder, images=24, size=(640, 480))
    made_data.weights(folder / "torch", "resnet18-f37072fd.pth", "resnet18")
