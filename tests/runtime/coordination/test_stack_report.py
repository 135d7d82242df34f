"""Ranks side by side: equal stacks once, those that differ first; one shape for all commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from distcheck.core.model import Report
from distcheck.reporters import Style, render
from distcheck.runtime.coordination.model import CollectiveCall, Frame, Position, Positions
from distcheck.runtime.coordination.stack_report import group_stacks, plain_job, worth_showing

C10D = "torch/distributed/distributed_c10d.py"
WRAPPER = Frame("torch/distributed/c10d_logger.py", 83, "_exception_logger.<locals>.wrapper")
OWN = Frame("train.py", 16, "train", True)
AWAY = Frame("eval.py", 7, "validate", True)
ROOT = Path(__file__).resolve().parents[3]


def library(path: str, function: str) -> Frame:
    return Frame(path, 100, function)


def test_equal_stacks_are_one_group_and_those_that_differ_come_first() -> None:
    call = CollectiveCall(0, "all_reduce")
    waiting = [Position(rank, state="waiting", call=call, stack=(OWN,)) for rank in (0, 2, 3)]
    groups = group_stacks([*waiting, Position(1, stack=(Frame("eval.py", 7, "validate", True),), detail="asleep")])
    assert [(group.who, group.doing) for group in groups] == [
        ("rank 1", "in other code (asleep)"),
        ("ranks 0,2-3", "waiting in all_reduce"),
    ]


def test_what_is_worth_showing_is_the_users_and_the_call_that_it_is_in() -> None:
    frames = [WRAPPER, library(C10D, "all_reduce"), WRAPPER, OWN, library("click/core.py", "main"), OWN]
    assert worth_showing(frames) == (False, True, False, True, False, True)
    assert worth_showing([OWN]) == (True,)
    assert worth_showing([]) == ()


def two_ranks() -> Positions:
    call = CollectiveCall(412, "all_reduce", place="train.py:16")
    waiting = Position(0, "n1", 20, "waiting", call, stack=(WRAPPER, library(C10D, "all_reduce"), OWN))
    return Positions((waiting, Position(1, "n2", 21, stack=(AWAY,), detail="asleep")), 2, 20.0)


def test_a_job_is_told_in_the_published_shape() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    job = plain_job("the job", two_ranks(), seen="no progress for 20 s", interval_s=20.0)
    schema = json.loads((ROOT / "distcheck" / "reporters" / "report.schema.json").read_text())
    jsonschema.validate(
        job, {**schema["properties"]["subject"]["properties"]["jobs"]["items"], "$defs": schema["$defs"]}
    )
    assert (job["hosts"], [item["state"] for item in job["ranks"]]) == ("n1, n2", ["waiting", "computing"])


@pytest.mark.parametrize("name", ["full", "markdown", "html"])
def test_who_differs_is_told_first_in_what_people_read(name: str) -> None:
    job = plain_job("the <job>", two_ranks(), seen="no progress for 20 s", interval_s=20.0)
    text = render(Report("watch", subject={"jobs": [job]}), name, Style())
    places = [
        text.index(part) for part in ("no progress for 20 s", "rank 1", "eval.py:7", "all_reduce #412", "train.py:16")
    ]
    assert places == sorted(places)
    assert "c10d_logger" not in text
    assert ("the <job>" in text) == (name != "html")
