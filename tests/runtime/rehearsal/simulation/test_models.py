"""Copies of models that drift apart, and equal inputs of all ranks, from hand-made rows; and what is neither."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from distcheck.core.checker import Checker
from distcheck.core.model import Finding, Report
from distcheck.runtime.coordination.copy_observer import CopyRow
from distcheck.runtime.coordination.digests import Digest
from distcheck.runtime.coordination.logged_events import LoggedEvent
from distcheck.runtime.rehearsal.simulation.plan import End, Rehearsal, RehearsalPlan

PLAN = RehearsalPlan("train.py", nproc_per_node=2)
STEPS = 4


def digest(number: int) -> Digest:
    return Digest(number, float(number), -0.5 * number, 32)


def copy_of(rank: int, count: int, **more: Any) -> CopyRow:
    """A row of a copy; a number stands for the elements of a tensor."""
    drawn = {"value": 10 * count + (rank if count > 1 else 0), "gradient": 100 * count + rank, "varied": True, **more}
    value, gradient, varied = (drawn.pop(name) for name in ("value", "gradient", "varied"))
    return CopyRow(
        rank, 0, count, "Net", "train.py:30", count, {}, (("weight", varied, digest(gradient), digest(value)),), (0.1,), {},
        False, False, False,
    )._replace(**drawn)  # fmt: skip


def series(
    row: Callable[[int, int], CopyRow] = copy_of, calls: Any = lambda count: {"few": count}, *, synced: int = 0
) -> list[LoggedEvent]:
    """Rows of two ranks."""
    rows = [
        LoggedEvent(
            "training.copy", rank, rank, float(count), count - 1, data={"row": list(row(rank, count)._replace(calls=calls(count)))}
        )
        for count in range(1, STEPS + 1) for rank in (0, 1)
    ]  # fmt: skip
    last = {"last": {"0": (STEPS, {"": synced})}}
    return rows + [LoggedEvent("training.copies", rank, rank, 99.0, STEPS, data=last) for rank in (0, 1)]


def judged(
    rows: list[LoggedEvent], how: str = "finished", ranks: tuple[int, ...] = (0, 1), topic: str = "models"
) -> Report:
    rehearsal = Rehearsal(PLAN, tuple(End(rank, rank, how) for rank in ranks), tuple(rows))
    checker = Checker(modules=(f"distcheck.runtime.rehearsal.simulation.{topic}",), plug_ins=False)
    return checker.plan(Rehearsal, command="rehearse", closed=True).run(rehearsal)


def found(rows: list[LoggedEvent], how: str = "finished", topic: str = "models") -> list[Finding]:
    done = judged(rows, how, topic=topic)
    assert all(probe.status == "ran" for probe in done.probes), done.probes
    return list(done.findings)


def test_bad_dc763_copies_that_began_equal_drift_apart() -> None:
    (finding,) = found(series())
    assert (finding.code, finding.where.line, finding.where.ranks) == ("DC763", 30, "0-1")
    assert finding.message.startswith("the gradient of weight of Net differs between ranks 0-1 from step 1 on")


def test_bad_dc763_only_the_parameter_differs() -> None:
    (finding,) = found(series(lambda rank, count: copy_of(rank, count, gradient=100 * count)))
    assert finding.message.startswith("parameter weight of Net differs between ranks 0-1 from step 2 on")


def test_bad_dc763_in_a_script_that_was_ended_early_if_gradients_are_reduced() -> None:
    assert [one.code for one in found(series(calls=lambda count: {"model": count}), "steps")] == ["DC763"]


def with_more(**more: Any) -> Callable[[int, int], CopyRow]:
    return lambda rank, count: copy_of(rank, count, **more)


@pytest.mark.parametrize("calls", [{}, {"few": 1}])
def test_ranks_that_never_communicate_between_steps_are_not_checked(calls: dict[str, int]) -> None:
    """Making the group counts as a call."""
    alone = judged(series(calls=lambda count: calls))
    assert (alone.findings, [item.what for item in alone.not_checked]) == ((), ["DC758, DC759, DC763"])
    assert judged(series(with_more(varied=False))).not_checked == ()
    assert judged(series(with_more(wrapped=True), calls=lambda count: calls)).not_checked == ()
    assert judged([row for row in series(calls=lambda count: calls) if not row.rank], ranks=(0,)).not_checked == ()


def test_bad_dc763_hooks_that_average_are_on_another_model() -> None:
    rows = series(with_more(hooked_elsewhere=True), calls=lambda count: {})
    assert [one.code for one in found(rows)] == ["DC763"]
    assert found(rows, "steps") == []


def test_bad_dc763_data_is_divided_and_nothing_is_exchanged() -> None:
    assert [one.code for one in found(series(with_more(divides_data=True), calls=lambda count: {}))] == ["DC763"]
    assert found(series(with_more(divides_data=True), calls=lambda count: {}), "steps") == []


def test_bad_dc759_dc758_ddp_wraps_a_model_and_never_averages() -> None:
    for why, code in (("all in no_sync", "DC759"), ("hook", "DC758")):
        rows = series(with_more(unreduced=why, wrapped=True), calls=lambda count: {})
        assert [one.code for one in found(rows)] == [code]
        assert found(rows, "steps") == []


def test_bad_dc763_a_constant_buffer_differs() -> None:
    def row(rank: int, count: int) -> CopyRow:
        return copy_of(rank, count, value=10 * count, gradient=100 * count, buffers={"omega": digest(7 + rank)})

    (finding,) = found(series(row, calls=lambda count: {"model": count}))
    assert (finding.code, finding.evidence["buffer"]) == ("DC763", "omega")


@pytest.mark.parametrize(
    ("rows", "how"),
    [
        pytest.param(series(lambda rank, count: copy_of(rank, count, value=10 * count)), "finished", id="equal"),
        pytest.param(
            series(lambda rank, count: copy_of(rank, count, value=10 * count + rank)), "finished", id="never equal"
        ),
        pytest.param(series(with_more(varied=False)), "finished", id="constants at first: parts of a model may be"),
        pytest.param(series(), "steps", id="ended early, and only numbers are reduced"),
        pytest.param(series(calls=lambda count: {"few": count, "other": 1}), "finished", id="activations are exchanged"),
        pytest.param(series(with_more(divided=True)), "finished", id="ranks share out a model"),
        pytest.param(series(synced=1), "finished", id="averaged after the last step"),
        pytest.param(
            series(lambda rank, count: copy_of(rank, count, value=10 * count + (rank if count in (2, 4) else 0))),
            "finished", id="averaged every other step",
        ),
        pytest.param(
            series(lambda rank, count: copy_of(rank, count, network=f"Stage{rank}")), "finished",
            id="other models on each rank",
        ),
    ],
)  # fmt: skip
def test_good_dc763(rows: list[LoggedEvent], how: str) -> None:
    assert found(rows, how) == []


def test_good_dc763_of_rounding() -> None:
    def row(rank: int, count: int) -> CopyRow:
        made = copy_of(rank, count, gradient=100 * count)
        ((name, varied, gradient, _),) = made.parameters
        value = digest(10 * count)
        if rank and count > 1:
            value = value._replace(checksum=7)
        return made._replace(parameters=((name, varied, gradient, value),))

    assert found(series(row)) == []


def inputs(taken: Callable[[int, int], list[list[int]]], *, wrapped: bool = True, others: int = 0) -> list[LoggedEvent]:
    """Rows of two ranks: what a model takes between its steps."""
    return [
        LoggedEvent("inputs.step", rank, rank, float(count), count - 1, "train.py:30", "main", {
            "model": 0, "network": "Net", "wrapped": wrapped, "called_at": "train.py:20", "count": count,
            "inputs": taken(rank, count), "calls": {"other": others},
        })
        for count in range(1, STEPS + 1) for rank in (0, 1)
    ]  # fmt: skip


def equal(_: int, count: int) -> list[list[int]]:
    return [[50 * count, 1]]


def test_bad_dc736_all_ranks_pass_the_same_inputs() -> None:
    (finding,) = found(inputs(equal), "steps", "inputs")
    assert (finding.code, finding.where.line, finding.where.ranks) == ("DC736", 20, "0-1")


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(inputs(lambda rank, count: [[50 * count + rank, 1]]), id="other inputs on each rank"),
        pytest.param(inputs(lambda rank, count: [[50, 1]]), id="one batch in all steps: a benchmark"),
        pytest.param(inputs(lambda rank, count: [[50 * count, 0]]), id="constants"),
        pytest.param(inputs(lambda rank, count: []), id="no input was seen"),
        pytest.param(inputs(equal, wrapped=False), id="ranks train for themselves"),
        pytest.param(inputs(equal, others=1), id="ranks share out a model"),
    ],
)
def test_good_dc736(rows: list[LoggedEvent]) -> None:
    assert found(rows, topic="inputs") == []


def test_good_dc736_ranks_of_one_tensor_parallel_group() -> None:
    twins = LoggedEvent("samples.twins", 0, 0, 0.0, 0, data={"ranks": [0, 1], "how": "tensor parallel"})
    assert found([*inputs(equal), twins], topic="inputs") == []
