"""A radiance field of a tiny scene, two networks with an optimizer each; mp.spawn starts a rank for each GPU."""

from pathlib import Path

from tests.real import made_data
from tests.real.recipe import Recipe

RECIPE = Recipe(
    repository="Kai-46/nerfplusplus",
    commit="ebf2f3e75fd6c5dfc8c9d0b533800daaf17bd95f",
    script="ddp_train_nerf.py",
    kind="3d",
    launcher=(),
    nodes=1,
    arguments=(
        "--datadir={data}",
        "--scene=tiny",
        "--expname=tiny",
        "--testskip=1",
        "--netdepth=2",
        "--netwidth=16",
        "--use_viewdirs",
        "--cascade_samples=4,8",
        "--max_freq_log2=4",
        "--N_iters=30",
    ),
    install=("configargparse", "imageio", "tensorboardX", "opencv-python-headless<4.11", "matplotlib<3.9", "numpy<2"),
    no_cpu="it reads the memory of a GPU",
)


def make_data(folder: Path) -> None:
    rows = {"intrinsics": "24 0 16 0 0 24 16 0 0 0 1 0 0 0 0 1", "pose": "1 0 0 {0} 0 1 0 0 0 0 1 -0.5 0 0 0 1"}
    for split, views in (("train", 4), ("validation", 2)):
        for view in range(views):
            made_data.png(folder / "tiny" / split / "rgb" / f"{view}.png", seed=view)
            for name, numbers in rows.items():
                path = folder / "tiny" / split / name / f"{view}.txt"
                path.parent.mkdir(exist_ok=True)
                path.write_text(numbers.format(0.1 * view))
