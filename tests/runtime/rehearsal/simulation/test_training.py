"""Replicas, idle optimizers and schedules of a rehearsal, from hand-made rows; how they are found is watch's."""

from __future__ import annotations

from typing import Any

from distcheck.core.checker import Checker
from distcheck.core.model import Report
from distcheck.runtime.coordination.clipping import ClippedGradients
from distcheck.runtime.coordination.digests import Digest
from distcheck.runtime.coordination.drift import ReplicaRow
from distcheck.runtime.coordination.logged_events import LoggedEvent
from distcheck.runtime.coordination.updates import IdleOptimizer, ScheduleBurst
from distcheck.runtime.rehearsal.simulation.plan import Rehearsal, RehearsalPlan

PLAN = RehearsalPlan("train.py", nproc_per_node=2)
WEIGHT, OTHER = Digest(1, 1.0, 0.5, 32), Digest(2, 1.4, -0.2, 32)


def event(kind: str, rank: int, **data: Any) -> LoggedEvent:
    return LoggedEvent(kind, rank, rank, 1.0, 0, "", "", data)


def row(rank: int, step: int, *, rate: float = 0.1, value: Digest = WEIGHT, **more: Any) -> LoggedEvent:
    made = ReplicaRow(
        rank, "0.ddp0.0", (0, 1), step, 4 * step, "Net", "train.py:30", (rate,), {"weight": (WEIGHT, value)}, **more
    )
    return event("training.row", rank, row=made)


def report(*rows: LoggedEvent) -> Report:
    rehearsal = Rehearsal(PLAN, (), (event("stage.step", 0), *rows))
    checker = Checker(modules=("distcheck.runtime.rehearsal.simulation.training",), plug_ins=False)
    return checker.plan(Rehearsal, command="rehearse", closed=True).run(rehearsal)


def codes(*rows: LoggedEvent) -> list[tuple[str, int | None, int | None]]:
    return [(one.code, one.where.line, one.where.rank) for one in report(*rows).findings]


def test_bad_dc763_dc764_what_differs_at_two_steps_is_reported_once() -> None:
    apart = [row(rank, step, value=OTHER if rank else WEIGHT) for step in (1, 2, 3) for rank in (0, 1)]
    assert codes(*apart) == [("DC763", 30, 1)]
    rates = [row(rank, step, rate=0.1 * (1 + rank)) for step in (1, 2) for rank in (0, 1)]
    assert codes(*rates) == [("DC764", 30, 1)]


def test_good_dc763_dc764_equal_replicas_one_step_and_a_rank_without_a_row() -> None:
    assert codes(*(row(rank, step) for step in (1, 2, 3) for rank in (0, 1))) == []
    assert codes(*(row(rank, 1, value=OTHER if rank else WEIGHT) for rank in (0, 1))) == []
    assert codes(*(row(1, step, value=OTHER) for step in (1, 2)), row(0, 1)) == []


def test_good_dc763_ranks_that_step_other_parameters() -> None:
    parts = [row(rank, step, value=OTHER if rank else WEIGHT, reduced=(rank,)) for step in (1, 2, 3) for rank in (0, 1)]
    assert codes(*parts) == []


def test_bad_dc757_dc752_dc766_dc765_one_finding_for_all_ranks() -> None:
    late = [
        row(rank, step)._replace(data={"row": list(ReplicaRow(
            rank, "0.ddp0.0", (0, 1), step, 4 * step * (1 + rank), "Net", "train.py:30", (0.1,), {"weight": (WEIGHT, WEIGHT)}
        ))})
        for step in (1, 2) for rank in (0, 1)
    ]  # fmt: skip
    assert codes(*late) == [("DC757", 30, 1)]
    idle = [event("training.idle", rank, found=IdleOptimizer(rank, "train.py:30", "SGD", 3, 4)) for rank in (1, 0)]
    assert codes(*idle) == [("DC766", 30, 0)]
    sharded = IdleOptimizer(0, "train.py:30", "SGD", 3, 4, sharded=True)
    assert codes(event("training.idle", 0, found=sharded)) == [("DC752", 30, 0)]
    cleared = IdleOptimizer(0, "train.py:30", "SGD", 2, 0, cleared_at="train.py:29")
    assert codes(event("training.idle", 0, found=cleared)) == [("DC766", 29, 0)]
    burst = [
        event("training.burst", rank, found=ScheduleBurst(rank, "a.py:3", "StepLR", 2, "a.py:2")) for rank in (0, 1)
    ]
    assert codes(*burst) == [("DC765", 3, 0)]
    clipped = [event("training.clipped", rank, found=ClippedGradients(rank, "a.py:5", "a.py:6")) for rank in (0, 1)]
    assert codes(*clipped) == [("DC758", 5, 0)]


def test_without_a_step_nothing_was_judged() -> None:
    rehearsal = Rehearsal(PLAN, (), ())
    checker = Checker(modules=("distcheck.runtime.rehearsal.simulation.training",), plug_ins=False)
    done = checker.plan(Rehearsal, command="rehearse", closed=True).run(rehearsal)
    assert [probe.status for probe in done.probes] == ["ran", *["not-applicable"] * 4]
