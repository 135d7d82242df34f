"""Masked siamese networks: each rank hides all GPUs but one, and sums the gradients of its prototypes by hand."""

import json
from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Recipe

RECIPE = Recipe(
    repository="facebookresearch/msn",
    commit="4388dc1eadbe3042b85d3296d41b9b207656e043",
    script="main.py",
    kind="vision",
    launcher=(),
    nodes=1,
    arguments=("--fname={data}/tiny.yaml", "--devices", "cuda:0", "cuda:1", "cuda:2", "cuda:3"),
    install=("torchvision", "pillow<10", "pyyaml"),
    no_cpu="it binds a GPU",
)


def make_data(folder: Path) -> None:
    made_data.image_folder(folder / "images" / "train", images=16)
    (folder / "out").mkdir()
    configuration = {
        "criterion": {
            "ent_weight": 0.0,
            "final_sharpen": 0.25,
            "me_max": True,
            "memax_weight": 1.0,
            "num_proto": 8,
            "start_sharpen": 0.25,
            "temperature": 0.1,
            "batch_size": 2,
            "use_ent": True,
            "use_sinkhorn": True,
        },
        "data": {
            "color_jitter_strength": 0.5,
            "pin_mem": True,
            "num_workers": 1,
            "image_folder": "images",
            "label_smoothing": 0.0,
            "patch_drop": 0.15,
            "rand_size": 64,
            "focal_size": 32,
            "rand_views": 1,
            "focal_views": 1,
            "root_path": str(folder),
        },
        "logging": {"folder": str(folder / "out"), "write_tag": "tiny"},
        "meta": {
            "bottleneck": 1,
            "copy_data": False,
            "drop_path_rate": 0.0,
            "hidden_dim": 32,
            "load_checkpoint": False,
            "model_name": "deit_tiny",
            "output_dim": 16,
            "read_checkpoint": None,
            "use_bn": True,
            "use_fp16": False,
            "use_pred_head": False,
        },
        "optimization": {
            "clip_grad": 3.0,
            "epochs": 1,
            "final_lr": 0.0001,
            "final_weight_decay": 0.4,
            "lr": 0.001,
            "start_lr": 0.0002,
            "warmup": 0,
            "weight_decay": 0.04,
        },
    }
    # JSON is YAML
    (folder / "tiny.yaml").write_text(json.dumps(configuration, indent=1))
