"""A segmentation network of several resolutions; started by torch.distributed.launch."""

from tests.real.recipe import Judged, Recipe

RECIPE = Recipe(
    repository="HRNet/HRNet-Semantic-Segmentation",
    commit="0bbb2880446ddff2d78f8dd7e8c4c610151d5a51",
    script="tools/train.py",
    kind="vision",
    launcher=("python", "-m", "torch.distributed.launch"),
    arguments=("--cfg=experiments/cityscapes/seg_hrnet_w48_train_512x1024_sgd_lr1e-2_wd5e-4_bs_12_epoch484.yaml",),
    install=("torchvision", "yacs", "tensorboardX", "opencv-python-headless", "tqdm"),
    no_cpu="it needs CUDA",
    ends="finished with status 2",
    steps=0,
    findings=(Judged("DC207", "", True, "it declares --local_rank only, and the launcher passes --local-rank"),),
)
