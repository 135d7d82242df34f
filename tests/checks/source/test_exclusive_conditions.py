"""Which conditions exclude each other, by programs whose optimizer and sharding stand below them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_lint import report_of

PROGRAM = """\
import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


def build(model, stage, args):
    optimizer = None
    if {first}:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if {second}:
        model = FSDP(model)
    return model, optimizer


def main(args):
    dist.init_process_group("nccl")
    build(torch.nn.Linear(2, 2).cuda(), args.stage, args)


main(None)
"""


def found(folder: Path, first: str, second: str) -> bool:
    (folder / "train.py").write_text(PROGRAM.format(first=first, second=second))
    report = report_of("lint", "--isolated", "--no-cache", "--select", "DC752", cwd=folder)
    return bool(report["findings"])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("stage <= 0", "stage == 3"),
        ("not stage > 0", "stage == 3"),
        ("stage < 2", "2 < stage"),
        ("stage in (0, 1)", "stage == 3"),
        ("args.mode == 'ddp'", "args.mode == 'fsdp'"),
        ("args.mode == 'ddp' and stage", "args.mode not in ('ddp', 'none')"),
        ("args['mode'] != 'fsdp'", "args['mode'] == 'fsdp'"),
        ("1 <= stage <= 2", "stage > 2.5"),
        ("stage in ()", "stage == 3"),
    ],
)
def test_good_conditions_that_exclude_each_other(tmp_path: Path, first: str, second: str) -> None:
    assert not found(tmp_path, first, second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("stage > 0", "stage == 3"),
        ("stage < 3", "stage > 1"),
        ("stage in (0, 3)", "stage == 3"),
        ("args.mode == 'ddp'", "args.kind == 'fsdp'"),
        ("args.mode == 'ddp' or stage", "args.mode == 'fsdp'"),
        ("args.mode != 'ddp'", "args.mode == 'fsdp'"),
        ("args.mode == 'ddp'", "args.mode == stage"),
        ("args.mode == 1", "args.mode == 'fsdp'"),
        ("next(model.modes) == 'ddp'", "next(model.modes) == 'fsdp'"),
    ],
)
def test_bad_conditions_that_may_both_hold(tmp_path: Path, first: str, second: str) -> None:
    assert found(tmp_path, first, second)


def test_bad_a_loop_changes_what_is_compared(tmp_path: Path) -> None:
    text = PROGRAM.replace("    optimizer = None\n", "    for part in args.parts:\n")
    text = text.replace("    if {", "        if {").replace("        optimizer =", "            optimizer =")
    text = text.replace("        model = FSDP", "            model = FSDP")
    (tmp_path / "train.py").write_text(text.format(first="part.kind == 'a'", second="part.kind == 'b'"))
    compile((tmp_path / "train.py").read_text(), "train.py", "exec")
    assert report_of("lint", "--isolated", "--no-cache", "--select", "DC752", cwd=tmp_path)["findings"]
