"""A segmentation network with AMP and auxiliary heads."""

from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Judged, Recipe

RECIPE = Recipe(
    repository="CoinCheung/BiSeNet",
    commit="6b4b67a8e3eb0cc23b3d7a94843a7c3c11dedca8",
    script="tools/train_amp.py",
    kind="vision",
    arguments=("--config={data}/config.py",),
    variables=(("TORCH_HOME", "{data}/torch"),),
    install=("opencv-python-headless", "torchvision", "tabulate"),
    no_cpu="it binds a GPU",
    steps=3,
    findings=(
        Judged(
            "DC722",
            "tools/train_amp.py:205",
            True,
            "all ranks test for the folder and then make it, and the second one fails",
        ),
    ),
)


def make_data(folder: Path) -> None:
    made_data.weights(folder / "torch", "resnet18-5c106cde.pth", "resnet18")
    for number in range(16):
        made_data.png(folder / f"{number}.png", (96, 96), seed=number)
        made_data.png(folder / f"{number}_label.png", (96, 96), seed=number, classes=4)
    pairs = "".join(f"{number}.png,{number}_label.png\n" for number in range(16))
    for part in ("train", "val"):
        (folder / f"{part}.txt").write_text(pairs)
    settings = {
        "model_type": "bisenetv1", "n_cats": 4, "num_aux_heads": 2, "lr_start": 1e-2, "weight_decay": 5e-4,
        "warmup_iters": 2, "max_iter": 8, "dataset": "CustomerDataset", "im_root": str(folder),
        "train_im_anns": str(folder / "train.txt"), "val_im_anns": str(folder / "val.txt"), "scales": [0.75, 2.0],
        "cropsize": [64, 64], "eval_crop": [64, 64], "eval_scales": [1.0], "ims_per_gpu": 2, "eval_ims_per_gpu": 1,
        "use_fp16": True, "use_sync_bn": False, "respth": "./res",
    }  # fmt: skip
    (folder / "config.py").write_text(f"cfg = {settings!r}\n")
