"""A first DDP script, from a book; it passes the local rank as its rank."""

from tests.real.recipe import HUNG, Judged, Recipe

_SCRIPT = "appendix-A/01_main-chapter-code/DDP-script-torchrun.py"
RECIPE = Recipe(
    repository="rasbt/LLMs-from-scratch",
    commit="28c65cdfbc3338e2e040016eea4b7fdf556e4d57",
    script=_SCRIPT,
    kind="toy",
    no_cpu="it binds a GPU",
    ends=HUNG,
    steps=0,
    findings=(
        Judged("DC502", f"{_SCRIPT}:43", True, "it passes LOCAL_RANK as rank, so two nodes join as the same two ranks"),
        Judged("DC511", f"{_SCRIPT}:43", True, "ranks 2 and 3 are missing, so no rank leaves init_process_group"),
    ),
)
