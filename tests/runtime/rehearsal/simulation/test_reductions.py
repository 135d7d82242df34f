"""By which factor gradients are averaged (DC758), and dropout of the same activations (DC763), from hand-made rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from distcheck.core.checker import Checker
from distcheck.core.model import Finding
from distcheck.runtime.coordination.logged_events import LoggedEvent
from distcheck.runtime.coordination.reductions import GradientStep
from distcheck.runtime.rehearsal.simulation.plan import End, Rehearsal, RehearsalPlan

PLAN = RehearsalPlan("train.py", nproc_per_node=2)
ENDS = tuple(End(rank, rank) for rank in (0, 1))
#: What the backward passes of each rank give, as the sums of a gradient's elements.
LOCAL = {0: [(4.0, -2.0, 1.0), (1.0, 5.0, 0.5)], 1: [(-3.0, 1.0, 2.0), (2.0, 2.0, -7.0)]}

Entries = Callable[[int], Any]


def judged(topic: str, rows: Sequence[LoggedEvent]) -> list[Finding]:
    modules = (f"distcheck.runtime.rehearsal.simulation.{topic}", "distcheck.runtime.coordination.reductions")
    done = Checker(modules=modules[: 2 if topic == "reductions" else 1], plug_ins=False).plan(Rehearsal, command="rehearse", closed=True).run(
        Rehearsal(PLAN, ENDS, tuple(rows))
    )  # fmt: skip
    assert all(probe.status == "ran" for probe in done.probes), done.probes
    return list(done.findings)


# DC758


def times(factor: float, *vectors: Sequence[float]) -> list[float]:
    return [factor * sum(parts) for parts in zip(*vectors, strict=True)]


def steps(
    entries: Entries, final: Callable[[int], Sequence[float]], *, counts: int = 2, **more: Any
) -> list[LoggedEvent]:
    """Rows of two ranks; all gradients of one optimizer are one."""
    return [
        event(GradientStep(
            rank, 0, count, "0 of parameter group 0", "train.py:30", entries(rank), tuple(final(rank)), True, False
        )._replace(**more))
        for count in range(2, 2 + counts) for rank in (0, 1)
    ]  # fmt: skip


def event(step: GradientStep) -> LoggedEvent:
    return LoggedEvent("training.reduction", step.rank, step.rank, float(step.nth), step.nth, data={"row": list(step)})


def renamed(rows: Sequence[LoggedEvent]) -> list[LoggedEvent]:
    return [event(GradientStep(*row.data["row"])._replace(name="1 of parameter group 0")) for row in rows]


ALL = [*LOCAL[0], *LOCAL[1]]
SUM, AVERAGE = ["sum", "train.py:20", 2], ["avg", "train.py:20", 2]


def each(call: Any) -> Entries:
    """A call after each of two backward passes."""
    return lambda rank: [LOCAL[rank][0], call, LOCAL[rank][1], call]


def once(call: Any) -> Entries:
    return lambda rank: [*LOCAL[rank], call]


#: (((a0 + a1) + b0) + ((a0 + a1) + b1))
AGAIN = times(1.0, LOCAL[0][0], LOCAL[1][0], LOCAL[0][0], LOCAL[1][0], LOCAL[0][1], LOCAL[1][1])


def test_bad_dc758_a_gradient_is_summed_after_each_backward_pass() -> None:
    (finding,) = judged("reductions", steps(each(SUM), lambda _: AGAIN))
    assert (finding.code, finding.where.line, finding.where.ranks) == ("DC758", 20, "0-1")
    assert "sums a gradient 2 times for one step at train.py:30" in finding.message


def test_bad_dc758_the_same_with_a_clip() -> None:
    (finding,) = judged("reductions", steps(each(SUM), lambda _: times(0.31, AGAIN)))
    assert finding.code == "DC758"


def test_bad_dc758_divided_twice() -> None:
    first = [LOCAL[0][0], LOCAL[1][0]]
    for calls_of_step in ([], [AVERAGE], [SUM]):
        entries = lambda rank, made=calls_of_step: [first[rank], *made]  # noqa: E731
        (finding,) = judged("reductions", steps(entries, lambda _: times(0.25, *first)))
        assert (finding.code, finding.where.line) == ("DC758", 30)
        assert "1/2 of the mean over 2 ranks" in finding.message
        # such as the batch size, if the loss is a sum
        assert "ranks twice, or by another number that is 2 as well" in finding.message


@pytest.mark.parametrize(
    ("entries", "final", "more"),
    [
        pytest.param(once(AVERAGE), lambda _: times(0.5, *ALL), {}, id="the mean"),
        pytest.param(once(SUM), lambda _: times(1.0, *ALL), {}, id="a sum: the loss may be divided before"),
        pytest.param(each(AVERAGE), lambda _: times(0.5, *ALL), {}, id="averaged after each pass: the same"),
        pytest.param(each(SUM), lambda _: times(0.5, *ALL), {}, id="summed and divided after each pass: the same"),
        pytest.param(
            lambda rank: [*LOCAL[0][: 1 - rank], SUM], lambda _: times(0.5, LOCAL[0][0]), {},
            id="one rank does not use the layer, and adds zeros",
        ),
        pytest.param(once(AVERAGE), lambda _: times(0.137, *ALL), {}, id="clipped"),
        pytest.param(once(AVERAGE), lambda _: times(0.25, *ALL), {"scaled": True}, id="the loss is scaled by two"),
        pytest.param(once(AVERAGE), lambda _: times(0.25, *ALL), {}, id="divided by the number of micro-batches"),
        pytest.param(once(AVERAGE), lambda _: times(0.25, *ALL), {"counts": 1}, id="in one step only"),
        pytest.param(each(SUM), lambda _: AGAIN, {"counts": 1}, id="summed again in one step only"),
        pytest.param(each(SUM), lambda _: (1.0, 1.0, -1.0), {}, id="something else is done with it"),
        pytest.param(each(SUM), lambda _: AGAIN, {"fresh": False}, id="it holds gradients of the step before"),
        pytest.param(lambda rank: LOCAL[rank], lambda rank: times(0.5, *LOCAL[rank]), {}, id="ranks differ: another rule"),
    ],
)  # fmt: skip
def test_good_dc758(entries: Entries, final: Callable[[int], Sequence[float]], more: dict[str, Any]) -> None:
    assert judged("reductions", steps(entries, final, **more)) == []


def test_good_dc758_one_of_two_gradients_has_the_whole_mean() -> None:
    """Layers may have learning rates of their own, by a factor of their gradients."""
    first = [LOCAL[0][0], LOCAL[1][0]]
    rows = steps(lambda rank: [first[rank], AVERAGE], lambda _: times(0.25, *first))
    more = steps(lambda rank: [first[rank], AVERAGE], lambda _: times(0.5, *first))
    rows += renamed(more)
    assert judged("reductions", rows) == []


def test_good_dc758_a_layer_is_unused_in_one_of_as_many_micro_batches_as_ranks() -> None:
    first = [LOCAL[0][0], LOCAL[1][0]]
    rows = steps(once(AVERAGE), lambda _: times(0.25, *ALL))
    more = steps(lambda rank: [first[rank], AVERAGE], lambda _: times(0.25, *first))
    unused = renamed(more)
    assert judged("reductions", [*rows, *unused]) == []
    (finding,) = judged("reductions", unused)
    assert finding.code == "DC758"


# DC763


def calls(
    given: Callable[[int, int], list[int]], result: Callable[[int, int], int], other: int = 1
) -> list[LoggedEvent]:
    rows = [
        LoggedEvent("dropouts.call", rank, rank, 1.0, 0, "train.py:12", "forward", {
            "number": number, "given": given(rank, number), "result": result(rank, number),
        })
        for number in range(3) for rank in (0, 1)
    ]  # fmt: skip
    exchanged = {"calls": {"other": other}}
    return [*rows, *(LoggedEvent("inputs.step", rank, rank, 2.0, 0, data=exchanged) for rank in (0, 1))]


def test_bad_dc763_the_same_activations_are_dropped_differently() -> None:
    rows = calls(lambda rank, number: [number if number == 0 else 9 * rank + number, 1], lambda rank, number: rank)
    (finding,) = judged("dropouts", rows)
    assert (finding.code, finding.severity.word, finding.where.line) == ("DC763", "warning", 12)
    assert "in 1 call." in finding.message


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(calls(lambda rank, number: [number, 1], lambda rank, number: 5), id="dropped alike"),
        pytest.param(calls(lambda rank, number: [9 * rank + number, 1], lambda rank, number: rank), id="other inputs"),
        pytest.param(calls(lambda rank, number: [number, 0], lambda rank, number: rank), id="constants"),
        pytest.param(calls(lambda rank, number: [number, 1], lambda rank, number: rank, 0), id="data parallel"),
    ],
)
def test_good_dc763(rows: list[LoggedEvent]) -> None:
    assert judged("dropouts", rows) == []
