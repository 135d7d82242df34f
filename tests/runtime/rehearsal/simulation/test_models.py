"""Models without a wrapper that drift apart, and equal inputs of all ranks, from hand-made rows; and what is neither."""

from __future__ import annotations

from typing import Any

import pytest

from distcheck.core.checker import Checker
from distcheck.core.model import Finding, Report
from distcheck.runtime.coordination.logged_events import LoggedEvent
from distcheck.runtime.rehearsal.simulation.plan import End, Rehearsal, RehearsalPlan

PLAN = RehearsalPlan("train.py", nproc_per_node=2)
STEPS = 4


def digest(number: int) -> list[Any]:
    return [number, float(number), -0.5 * number, 32]


def series(
    values: Any = lambda rank, count: 10 * count + (rank if count > 1 else 0),
    gradients: Any = lambda rank, count: 100 * count + rank,
    inputs: Any = lambda rank, count: [[50 * count + rank, 1]],
    calls: Any = lambda count: {"few": count},
    *,
    wrapped: bool = False,
    varied: bool = True,
    synced: int = 0,
    network: Any = lambda rank: "Net",
    hooked: bool = False,
) -> list[LoggedEvent]:
    """Rows of two ranks; a number stands for the elements of a tensor."""
    rows = []
    for count in range(1, STEPS + 1):
        for rank in (0, 1):
            data = {
                "model": 0, "network": network(rank), "wrapped": wrapped, "called_at": "train.py:20", "count": count,
                "inputs": inputs(rank, count), "exchanges": {}, "hooked_elsewhere": hooked, "calls": calls(count),
                "parameters": [["weight", varied, digest(gradients(rank, count)), digest(values(rank, count))]],
            }  # fmt: skip
            rows.append(LoggedEvent("models.step", rank, rank, float(count), count - 1, "train.py:30", "main", data))
    rows += [
        LoggedEvent("models.last", rank, rank, 99.0, STEPS, data={"model": 0, "exchanges": {"": synced}})
        for rank in (0, 1)
    ]
    return rows


def judged(rows: list[LoggedEvent], how: str = "finished", ranks: tuple[int, ...] = (0, 1)) -> Report:
    rehearsal = Rehearsal(PLAN, tuple(End(rank, rank, how) for rank in ranks), tuple(rows))
    checker = Checker(modules=("distcheck.runtime.rehearsal.simulation.models",), plug_ins=False)
    return checker.plan(Rehearsal, command="rehearse", closed=True).run(rehearsal)


def found(rows: list[LoggedEvent], how: str = "finished") -> list[Finding]:
    done = judged(rows, how)
    assert all(probe.status == "ran" for probe in done.probes), done.probes
    return list(done.findings)


def test_bad_dc763_copies_that_began_equal_drift_apart() -> None:
    (finding,) = found(series())
    assert (finding.code, finding.where.line, finding.where.ranks) == ("DC763", 30, "0-1")
    assert finding.message.startswith("the gradient of weight of Net differs between ranks 0-1 from step 1 on")


def test_bad_dc763_only_the_parameter_differs() -> None:
    (finding,) = found(series(gradients=lambda rank, count: 100 * count))
    assert finding.message.startswith("parameter weight of Net differs between ranks 0-1 from step 2 on")


def test_bad_dc763_in_a_script_that_was_ended_early_if_gradients_are_reduced() -> None:
    assert [one.code for one in found(series(calls=lambda count: {"model": count}), "steps")] == ["DC763"]


@pytest.mark.parametrize("calls", [{}, {"few": 1}])
def test_ranks_that_never_communicate_between_steps_are_not_checked(calls: dict[str, int]) -> None:
    """Making the group counts as a call."""
    alone = judged(series(calls=lambda count: calls))
    assert (alone.findings, [item.what for item in alone.not_checked]) == ((), ["DC763"])
    assert judged(series(calls=lambda count: {"few": count}, varied=False)).not_checked == ()
    assert judged(series(calls=lambda count: calls, wrapped=True)).not_checked == ()
    assert judged([row for row in series(calls=lambda count: calls) if not row.rank], ranks=(0,)).not_checked == ()


def test_bad_dc763_hooks_that_average_are_on_another_model() -> None:
    assert [one.code for one in found(series(calls=lambda count: {}, hooked=True))] == ["DC763"]
    assert found(series(calls=lambda count: {}, hooked=True), "steps") == []


@pytest.mark.parametrize(
    ("rows", "how"),
    [
        pytest.param(series(values=lambda rank, count: 10 * count), "finished", id="equal"),
        pytest.param(series(values=lambda rank, count: 10 * count + rank), "finished", id="never equal"),
        pytest.param(series(varied=False), "finished", id="constants at first: parts of a model may be"),
        pytest.param(series(), "steps", id="ended early, and only numbers are reduced"),
        pytest.param(series(calls=lambda count: {"few": count, "other": 1}), "finished", id="activations are exchanged"),
        pytest.param(series(synced=1), "finished", id="averaged after the last step"),
        pytest.param(
            series(values=lambda rank, count: 10 * count + (rank if count in (2, 4) else 0)), "finished",
            id="averaged every other step",
        ),
        pytest.param(series(wrapped=True), "finished", id="DDP is judged elsewhere"),
        pytest.param(series(network=lambda rank: f"Stage{rank}"), "finished", id="other models on each rank"),
    ],
)  # fmt: skip
def test_good_dc763(rows: list[LoggedEvent], how: str) -> None:
    assert found(rows, how) == []


def test_good_dc763_of_rounding() -> None:
    rows = series(gradients=lambda rank, count: 100 * count)
    for row in rows:
        if row.kind == "models.step" and row.rank and row.data["count"] > 1:
            row.data["parameters"][0][3] = [7, *digest(10 * row.data["count"])[1:]]
    assert found(rows) == []


EQUAL = {"values": lambda rank, count: 10 * count, "inputs": lambda rank, count: [[50 * count, 1]], "wrapped": True}


def test_bad_dc736_all_ranks_pass_the_same_inputs() -> None:
    (finding,) = found(series(**EQUAL), "steps")
    assert (finding.code, finding.where.line, finding.where.ranks) == ("DC736", 20, "0-1")


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"inputs": lambda rank, count: [[50 * count + rank, 1]]}, id="other inputs on each rank"),
        pytest.param({"inputs": lambda rank, count: [[50, 1]]}, id="one batch in all steps: a benchmark"),
        pytest.param({"inputs": lambda rank, count: [[50 * count, 0]]}, id="constants"),
        pytest.param({"inputs": lambda rank, count: []}, id="no input was seen"),
        pytest.param({"wrapped": False}, id="ranks train for themselves"),
        pytest.param({"calls": lambda count: {"other": 1}}, id="ranks share out a model"),
    ],
)
def test_good_dc736(more: dict[str, Any]) -> None:
    assert found(series(**{**EQUAL, **more})) == []


def test_good_dc736_ranks_of_one_tensor_parallel_group() -> None:
    twins = LoggedEvent("samples.twins", 0, 0, 0.0, 0, data={"ranks": [0, 1], "how": "tensor parallel"})
    assert found([*series(**EQUAL), twins]) == []
