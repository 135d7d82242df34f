"""Messages that differ between their two ranks, from hand-made rows: DC709."""

from __future__ import annotations

from typing import Any

from distcheck.core.checker import Checker
from distcheck.core.model import Finding, Severity
from distcheck.runtime.coordination.logged_events import LoggedEvent
from distcheck.runtime.rehearsal.simulation.plan import End, Rehearsal, RehearsalPlan

PLAN = RehearsalPlan("train.py", nproc_per_node=2)


def row(what: str, rank: int, line: int = 12, **data: Any) -> LoggedEvent:
    own = {"group": "0", "life": 0, "number": 0, **data}
    return LoggedEvent(f"messages.{what}", rank, rank, 1.0, 0, f"train.py:{line}", "main", own)


def pair(
    direction: str, rank: int, size: list[int], dtype: str = "float32", *, tag: int = 0, nth: int = 1
) -> LoggedEvent:
    line = 10 if direction == "send" else 20
    return row(
        "pair", rank, line, operation=direction, direction=direction, peer=1 - rank, tag=tag, nth=nth, size=size,
        dtype=dtype,
    )  # fmt: skip


def split(rank: int, sent: list[int], expected: list[int], number: int = 1) -> LoggedEvent:
    return row("split", rank, operation="all_to_all_single", number=number, ranks=[0, 1], sent=sent, expected=expected)


def judged(*rows: LoggedEvent) -> list[Finding]:
    rehearsal = Rehearsal(PLAN, tuple(End(rank) for rank in (0, 1)), rows)
    checker = Checker(modules=("distcheck.runtime.rehearsal.simulation.messages",), plug_ins=False)
    return list(checker.plan(Rehearsal, command="rehearse", closed=True).run(rehearsal).findings)


def test_bad_messages() -> None:
    for received, severity in (
        (pair("recv", 1, [6]), Severity.ERROR),
        (pair("recv", 1, [20]), Severity.WARNING),
        (pair("recv", 1, [8], "float64"), Severity.ERROR),
        (pair("recv", 1, [4], "float64"), Severity.ERROR),
    ):
        (found,) = judged(pair("send", 0, [2, 4]), received)
        assert (found.code, found.severity) == ("DC709", severity)
        assert (found.where.line, found.where.ranks) == (20, "1")
        assert "rank 0 calls send (float32 [2, 4]) at train.py:10" in found.message


def test_good_messages() -> None:
    # another shape; bytes; the second message; another tag; one side only
    assert judged(pair("send", 0, [2, 4]), pair("recv", 1, [8])) == []
    assert judged(pair("send", 0, [8]), pair("recv", 1, [32], "uint8")) == []
    assert judged(pair("send", 0, [8]), pair("recv", 1, [9], nth=2)) == []
    assert judged(pair("send", 0, [8]), pair("recv", 1, [9], tag=3)) == []
    assert judged(pair("send", 0, [8]), pair("send", 1, [9])) == []
    assert judged() == []


def objects(direction: str, rank: int) -> list[LoggedEvent]:
    """A list of objects travels as two messages."""
    return [pair(direction, rank, [], "objects", nth=nth) for nth in (1, 2)]


def test_objects_and_tensors() -> None:
    (found,) = judged(*objects("send", 0), pair("recv", 1, [4, 2]))
    assert (found.code, found.severity, found.where.line) == ("DC709", Severity.ERROR, 20)
    assert "a message holds objects on one of its two ranks: rank 0 calls send at train.py:10" in found.message
    (found,) = judged(pair("send", 0, [4, 2]), *objects("recv", 1))
    assert found.fix is not None
    assert "recv_object_list" in found.fix.text
    # objects on both sides; a receiver that reads the sizes and the bytes itself; the message after the objects
    assert judged(*objects("send", 0), *objects("recv", 1)) == []
    own = [pair("recv", 1, [1], "int64"), pair("recv", 1, [90], "uint8", nth=2)]
    assert judged(*objects("send", 0), *own) == []
    assert judged(*objects("send", 0), pair("recv", 1, [8], nth=3)) == []


def test_parts_of_an_all_to_all() -> None:
    (found,) = judged(split(0, [4, 2], [4, 2]), split(1, [1, 5], [1, 5]))
    assert (found.code, found.severity, found.where.ranks) == ("DC709", Severity.ERROR, "0-1")
    assert "rank 0 sends 2 elements to rank 1" in found.message
    assert "expects 1 from it" in found.message
    assert judged(split(0, [4, 2], [4, 1]), split(1, [1, 5], [2, 5])) == []
    assert judged(split(0, [4, 2], [4, 2]), split(1, [1, 5], [1, 5], number=2)) == []
