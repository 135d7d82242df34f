"""Numbers from flight recorders: what cannot be one call, and who waits for each other."""

from __future__ import annotations

import pytest

from distcheck.cli.stuck import PROBE_MODULES
from distcheck.core.checker import Checker
from distcheck.core.model import Finding, Severity
from distcheck.runtime.coordination.model import CollectiveCall, Frame, Position, Positions
from distcheck.runtime.inspect.snapshot import Snapshot, merge

PLAN = Checker(modules=PROBE_MODULES, plug_ins=False).plan(Snapshot, command="stuck", closed=True)
TRAIN = Frame("train.py", 88, "train", True)


def waits(
    rank: int, number: int = 5, operation: str = "all_reduce", *, group: str = "0", size: int = 20, **entered: int
) -> Position:
    call = CollectiveCall(number, operation, group, ((size,),), ("Float",), place="train.py:88")
    known = {group: number, **{name.removeprefix("g"): last for name, last in entered.items()}}
    return Position(rank, f"n{rank // 2}", 100 + rank, "waiting", call, stack=(TRAIN,), entered=known)


def seen(*ranks: Position, size: int | None = None, interval_s: float = 2.0, **more: object) -> Snapshot:
    world = len(ranks) if size is None else size
    known = tuple(item.rank for item in ranks)
    groups = {"1 tp": (0, 1), "2 dp": (0, 1)}
    return Snapshot(
        "job 1", Positions(ranks, world, 0.0, groups), ("n0",), interval_s, known,
        elsewhere=tuple(rank for rank in range(world) if rank not in known),
        recorded=tuple(item.rank for item in ranks if item.call is not None),
    )._replace(**more)  # type: ignore[arg-type]  # fmt: skip


def only(snapshot: Snapshot) -> Finding:
    (finding,) = PLAN.run(snapshot).findings
    return finding


def test_bad_one_number_and_two_operations() -> None:
    finding = only(seen(waits(0), waits(1, operation="broadcast"), waits(2)))
    assert (finding.code, finding.severity) == ("DC517", Severity.ERROR)
    assert "call #5 of the default group differs in operation" in finding.message
    assert finding.where.rank == 1


def test_bad_one_number_and_two_sizes() -> None:
    """DC517: stacks are alike here."""
    finding = only(seen(waits(0), waits(1, size=16)))
    assert (finding.code, finding.severity) == ("DC517", Severity.ERROR)
    assert "differs in sizes" in finding.message


def test_bad_two_groups_in_two_orders() -> None:
    """Each waits in a call that the other one never enters (DC517)."""
    finding = only(seen(waits(0, group="1 tp"), waits(1, group="2 dp")))
    assert (finding.code, finding.severity) == ("DC517", Severity.ERROR)


def test_bad_a_mismatch_between_hosts_is_seen_when_they_are_merged() -> None:
    """DC517."""
    first, second = seen(waits(0), waits(1), size=4), seen(waits(2), waits(3, operation="barrier"), size=4)
    assert [item.severity for item in PLAN.run(first).findings] == [Severity.INFO]
    (both,) = merge([first, second])
    assert only(both).code == "DC517"


@pytest.mark.parametrize(
    ("snapshot", "codes"),
    [
        # all are in one call: it is long, or does not get through
        (seen(waits(0), waits(1)), ["DC511"]),
        # one is a call ahead: the others are in it soon, or it is long
        (seen(waits(0), waits(1, 6, "barrier")), ["DC511"]),
        # parts of different sizes may be gathered
        (seen(waits(0, operation="all_gather"), waits(1, operation="all_gather", size=16)), ["DC511"]),
        # each rank its own group
        (seen(waits(0, group="3 a"), waits(1, group="4 b"))._replace(
            positions=Positions((waits(0, group="3 a"), waits(1, group="4 b")), 2, 0.0, {"3 a": (0,), "4 b": (1,)})
        ), ["DC511"]),
        # two groups, and each rank has entered both
        (seen(waits(0, group="1 tp", **{"g2 dp": 5}), waits(1, group="2 dp", **{"g1 tp": 5})), ["DC511"]),
    ],
)  # fmt: skip
def test_good_numbers_tell_that_it_may_go_on(snapshot: Snapshot, codes: list[str]) -> None:
    """No DC517, no DC701."""
    found = PLAN.run(snapshot).findings
    assert [(item.code, item.severity) for item in found] == [(code, Severity.INFO) for code in codes]


def test_good_ranks_that_nobody_has_seen_may_be_on_their_way() -> None:
    """No DC701 where two groups are open, and others may come to both."""
    snapshot = seen(waits(0, group="0"), waits(1, group="2 dp"), size=4)
    snapshot = snapshot._replace(positions=snapshot.positions._replace(groups={"2 dp": (1, 3)}))
    assert {item.severity for item in PLAN.run(snapshot).findings} == {Severity.INFO}


def test_without_the_numbers_of_one_rank_lines_decide() -> None:
    finding = only(seen(waits(0), waits(1, operation="broadcast"), recorded=(0,)))
    assert (finding.code, "ranks wait in different collectives" in finding.message) == ("DC517", True)
