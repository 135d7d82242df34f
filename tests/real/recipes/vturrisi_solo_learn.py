"""Self-supervised learning by the Trainer of Lightning, configured by hydra; torchrun starts its ranks."""

from pathlib import Path

from tests.real import made_data
from tests.real.recipe import FINISHED, Recipe

RECIPE = Recipe(
    repository="vturrisi/solo-learn",
    commit="9187ea39c2c3f43c455ab06664d2b019a9802954",
    script="main_pretrain.py",
    kind="vision",
    arguments=("--config-path={data}", "--config-name=tiny.yaml", "+num_nodes=2"),
    install=("lightning", "hydra-core", "torchvision", "timm>=0.9", "einops", "scikit-learn", "wandb<0.20"),
    no_cpu="it needs a list of GPUs",
    ends=FINISHED,
    steps=2,
)
_SETTINGS = """\
defaults: [_self_, {override hydra/hydra_logging: disabled}, {override hydra/job_logging: disabled}]
hydra: {output_subdir: null, run: {dir: .}}
name: tiny
method: byol
backbone: {name: resnet18}
method_kwargs: {proj_hidden_dim: 32, proj_output_dim: 16, pred_hidden_dim: 32}
momentum: {base_tau: 0.99, final_tau: 1.0}
data: {dataset: custom, train_path: TRAIN, val_path: VAL, format: image_folder, num_workers: 1, no_labels: False}
optimizer: {name: lars, batch_size: 4, lr: 0.5, classifier_lr: 0.1, weight_decay: 1e-6,
  kwargs: {clip_lr: True, eta: 0.02, exclude_bias_n_norm: True}}
scheduler: {name: warmup_cosine}
checkpoint: {enabled: True, dir: trained_models, frequency: 1}
auto_resume: {enabled: False}
max_epochs: 1
devices: [0, 1]
sync_batchnorm: False
accelerator: gpu
strategy: ddp
precision: 32
augmentations:
  - {rrc: {enabled: True, crop_min_scale: 0.2, crop_max_scale: 1.0},
     color_jitter: {prob: 0.8, brightness: 0.4, contrast: 0.4, saturation: 0.2, hue: 0.1}, grayscale: {prob: 0.2},
     gaussian_blur: {prob: 1.0}, solarization: {prob: 0.0}, equalization: {prob: 0.0}, horizontal_flip: {prob: 0.5},
     crop_size: 32, num_crops: 2}
"""


def make_data(folder: Path) -> None:
    made_data.imagenet(folder, images=16)
    settings = _SETTINGS.replace("TRAIN", str(folder / "train")).replace("VAL", str(folder / "val"))
    (folder / "tiny.yaml").write_text(settings)
