"""Groups that are left behind (DC743), and ranks that join as one (DC502), from hand-made rows."""

from __future__ import annotations

import pytest

from distcheck.core.checker import Checker
from distcheck.core.model import Finding, Severity
from distcheck.runtime.coordination.logged_events import LoggedEvent
from distcheck.runtime.rehearsal.simulation.plan import End, Rehearsal, RehearsalPlan

PLAN = RehearsalPlan("train.py", nproc_per_node=2)


def made(rank: int, backend: str = "cuda:nccl", direct: bool = True) -> LoggedEvent:
    data = {"backend": backend, "devices": backend, "size": 2, "device": None, "direct": direct}
    return LoggedEvent("groups.made", rank, rank, 1.0, 0, "train.py:12", "main", data)


def destroyed(rank: int) -> LoggedEvent:
    return LoggedEvent("groups.destroyed", rank, rank, 2.0, 0, "train.py:99", "main", {})


def judged(*rows: LoggedEvent, how: str = "finished", status: int = 0) -> list[Finding]:
    rehearsal = Rehearsal(PLAN, tuple(End(rank, how=how, status=status) for rank in (0, 1)), rows)
    checker = Checker(modules=("distcheck.runtime.rehearsal.simulation.groups",), plug_ins=False)
    return list(checker.plan(Rehearsal, command="rehearse", closed=True).run(rehearsal).findings)


def test_bad_dc743_the_script_ends_and_the_group_is_there() -> None:
    (found,) = judged(made(0), made(1))
    assert (found.code, found.severity, found.where.line, found.where.ranks) == ("DC743", Severity.INFO, 12, "0-1")


def test_bad_dc743_one_rank_leaves_it() -> None:
    (found,) = judged(made(0), made(1), destroyed(0))
    assert found.where.ranks == "1"
    assert "was not destroyed on rank 1" in found.message


@pytest.mark.parametrize("how", ["steps", "raised", "stopped", "killed"])
def test_good_dc743_the_rehearsal_has_ended_it(how: str) -> None:
    assert not judged(made(0), made(1), how=how)


def test_good_dc743() -> None:
    assert not judged(made(0), made(1), destroyed(0), destroyed(1))
    # gloo warns of nothing; a library's group is not the script's; a script that gives up
    assert not judged(made(0, "cpu:gloo"), made(1, "cpu:gloo"))
    assert not judged(made(0, direct=False), made(1, direct=False))
    assert not judged(made(0), made(1), status=1)
    assert not judged()


def joins(rank: int, number: int, size: int = 2) -> LoggedEvent:
    return LoggedEvent(
        "groups.joins", rank, rank, 0.5, 0, f"train.py:{20 + rank}", "main", {"joined_as": number, "size": size}
    )


def test_bad_dc502_two_ranks_of_the_launcher_join_as_one() -> None:
    (found,) = judged(joins(0, 0), joins(1, 0))
    assert (found.code, found.severity, found.where.line, found.where.ranks) == ("DC502", Severity.ERROR, 21, "0-1")


def test_good_dc502() -> None:
    # another order; each rank is a job of its own; a group that is made again; one rank alone joins
    assert not judged(joins(0, 1), joins(1, 0))
    assert not judged(joins(0, 0, 1), joins(1, 0, 1))
    assert not judged(joins(0, 0), joins(1, 1), joins(1, 0))
    assert not judged(joins(0, 0))
