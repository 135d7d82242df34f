"""The findings about a set of files do not depend on the order in which they are given."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from distcheck.checks.source.engine import SourceFile, analyse
from distcheck.checks.source.program import Program
from distcheck.core.checker import Checker
from distcheck.rules import Selection

CASES = Path(__file__).resolve().parents[2] / "lint"

#: Two scripts lead to one download, each on a path of its own.
TWO_PATHS = {
    "net.py": """\
import torch.utils.model_zoo as modelzoo


class Net:
    def __init__(self):
        self.init_weight()

    def init_weight(self):
        self.load_state_dict(modelzoo.load_url("https://host/weights.pth"))
""",
    **{
        f"{name}.py": f"""\
import os
import torch
import torch.distributed as dist
from net import Net


def {name}():
    return Net()


if __name__ == "__main__":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    {name}()
"""
        for name in ("adapt", "finetune", "train")
    },
}


def joined_cases(start: int) -> dict[str, str]:
    """Return some cases of the rules as the modules of one project."""
    files = sorted(CASES.glob("DC*/*.py"))[start::9]
    return {f"{path.parent.name}/{path.name}": path.read_text() for path in files}


def findings(texts: Mapping[str, str], order: list[str]) -> list[str]:
    files = [SourceFile(path, texts[path].encode) for path in order]
    plan = Checker(Selection(("ALL",)), modules=("distcheck.checks.source",), plug_ins=False).plan(
        Program, command="lint", closed=True
    )
    return sorted(repr(finding) for finding in plan.run(analyse(files)).findings)


@pytest.mark.slow
@pytest.mark.parametrize("texts", [TWO_PATHS, joined_cases(0), joined_cases(4)], ids=["paths", "cases", "more"])
def test_the_order_of_files_decides_nothing(texts: Mapping[str, str]) -> None:
    order = list(texts)
    expected = findings(texts, sorted(order, reverse=True))
    assert expected
    for seed in range(3):
        random.Random(seed).shuffle(order)
        assert findings(texts, order) == expected
