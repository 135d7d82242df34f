"""Copies that drift apart, from hand-made rows: DC750, DC751, DC756, DC758, DC759, DC763; and what only looks like it."""

from __future__ import annotations

from typing import Any

import pytest

from distcheck.core.checker import Checker
from distcheck.core.model import Finding, Report
from distcheck.runtime.coordination.digests import Digest
from distcheck.runtime.coordination.logged_events import LoggedEvent
from distcheck.runtime.rehearsal.simulation.plan import End, Rehearsal, RehearsalPlan

PLAN = RehearsalPlan("train.py", nproc_per_node=2)
SAME = [1, 1.0, 0.5, 32]
OTHER = [2, 1.4, -0.2, 32]


def wrap(
    rank: int, ranks: tuple[int, ...] = (0, 1), line: int = 23, number: int = 0, *, shared: bool = True
) -> LoggedEvent:
    data = {"model": number, "network": "Net", "ranks": list(ranks), "parameters": 2, "trained": 2, "shared": shared}
    return LoggedEvent("gradients.wrap", rank, rank, 1.0, 0, f"train.py:{line}", "main", data)


def step(
    rank: int,
    gradient: list[Any] | None,
    *,
    nth: int = 1,
    state: str = "owned",
    value: list[Any] = SAME,
    around: tuple[str, ...] = (),
    since: int = 1,
    forwards: int | None = None,
    hooks: int = 0,
    model: int = 0,
    **more: Any,
) -> LoggedEvent:
    data = {
        "model": model, "optimizer": 0, "count": nth, "forwards": nth * since if forwards is None else forwards,
        "since": since, "synced": True, "hooks": hooks, "around": [[place, "main"] for place in around],
        "parameters": [["body.weight", state, gradient, value]], **more,
    }  # fmt: skip
    return LoggedEvent("gradients.step", rank, rank, 1.0 + nth, nth - 1, "train.py:49", "main", data)


def last(rank: int, value: list[Any], forwards: int = 9) -> LoggedEvent:
    data = {"model": 0, "forwards": forwards, "steps": 1, "parameters": [["body.weight", "owned", None, value]]}
    return LoggedEvent("gradients.last", rank, rank, 99.0, 3, "", "", data)


def switch(rank: int, wanted: bool, line: int = 35) -> LoggedEvent:
    data = {"model": 0, "name": "body.weight", "wanted": wanted, "forwards": 1}
    return LoggedEvent("gradients.switch", rank, rank, 1.5, 1, f"train.py:{line}", "main", data)


def move(rank: int, forwards: int = 1, line: int = 51) -> LoggedEvent:
    data = {
        "model": 0, "name": "body.weight", "before": "cuda:0 float32", "after": "cpu float32", "forwards": forwards,
    }  # fmt: skip
    return LoggedEvent("gradients.move", rank, rank, 2.5, 1, f"train.py:{line}", "main", data)


def report(*rows: LoggedEvent, ends: tuple[End, ...] = ()) -> Report:
    rehearsal = Rehearsal(PLAN, ends, tuple(sorted(rows, key=lambda one: one.at_s)))
    checker = Checker(modules=("distcheck.runtime.rehearsal.simulation.gradients",), plug_ins=False)
    return checker.plan(Rehearsal, command="rehearse", closed=True).run(rehearsal)


def judged(*rows: LoggedEvent, ends: tuple[End, ...] = ()) -> list[Finding]:
    done = report(wrap(0), wrap(1), *rows, ends=ends)
    assert all(probe.status == "ran" for probe in done.probes), done.probes
    return list(done.findings)


def two_steps(**more: Any) -> list[LoggedEvent]:
    """Gradients and values that differ at two steps."""
    return [
        step(rank, gradient, nth=nth, value=gradient if nth > 1 else SAME, **more)
        for nth in (1, 2)
        for rank, gradient in enumerate((SAME, OTHER))
    ]


# DC757


def test_bad_dc757_one_rank_makes_no_step() -> None:
    steps = [step(0, SAME, nth=nth) for nth in (1, 2)]
    (found,) = judged(*steps, last(0, OTHER), last(1, SAME))
    assert (found.code, found.where.line, found.where.ranks, found.severity.word) == ("DC757", 49, "1", "warning")


@pytest.mark.parametrize(
    "rows",
    [
        # the other rank gets the parameters in the end
        [step(0, SAME), step(0, SAME, nth=2), last(0, OTHER), last(1, OTHER)],
        # it never calls the model; both step; one step may be an attempt; a rank was ended
        [step(0, SAME), step(0, SAME, nth=2), last(0, OTHER), last(1, SAME, forwards=0)],
        [*(step(rank, SAME, nth=nth) for nth in (1, 2) for rank in (0, 1)), last(0, SAME), last(1, SAME)],
        [step(0, SAME), last(0, OTHER), last(1, SAME)],
        [step(0, SAME), step(0, SAME, nth=2), last(0, OTHER)],
    ],
)
def test_good_dc757(rows: list[LoggedEvent]) -> None:
    assert "DC757" not in [one.code for one in judged(*rows)]


# DC758, DC759


def test_bad_dc758_a_hook_of_the_script_does_not_average() -> None:
    (found,) = judged(*two_steps(hooks=1, own_hook="train.py:30"))
    assert (found.code, found.where.line, found.where.ranks) == ("DC758", 30, "0-1")


def test_good_dc758() -> None:
    own = {"hooks": 1, "own_hook": "train.py:30"}
    # torch's own hook; the first step alone; a hook that averages; the script averages the values itself
    assert judged(*two_steps(hooks=1)) == []
    assert judged(step(0, SAME, **own), step(1, OTHER, **own), last(0, SAME), last(1, OTHER)) == []
    assert judged(*(step(rank, SAME, nth=nth, **own) for nth in (1, 2) for rank in (0, 1))) == []
    apart = [step(rank, gradient, nth=nth, **own) for nth in (1, 2) for rank, gradient in enumerate((SAME, OTHER))]
    assert judged(*apart, last(0, SAME), last(1, SAME)) == []


def test_bad_dc759_only_the_backward_pass_is_outside_of_no_sync() -> None:
    (found,) = judged(*two_steps(synced=False, backward_outside=True))
    assert (found.code, found.where.line, found.where.ranks) == ("DC759", 49, "0-1")


def test_bad_dc759_the_last_forward_is_inside_of_no_sync() -> None:
    (found,) = judged(*two_steps(synced=False, reduced_early=True))
    assert (found.code, found.where.line, found.where.ranks) == ("DC759", 49, "0-1")
    assert "the last one inside" in found.message


def test_good_dc759() -> None:
    # local steps: both passes are inside, and the script averages parameters later
    assert judged(*two_steps(synced=False, backward_outside=False)) == []
    for more in ({"backward_outside": True}, {"reduced_early": True}):
        alike = [step(rank, SAME, nth=nth, synced=False, **more) for nth in (1, 2) for rank in (0, 1)]
        assert judged(*alike) == []


# DC750


def test_bad_dc750_a_forward_around_the_wrapper() -> None:
    around = {"around": ("train.py:41",), "since": 0}
    (found,) = judged(step(0, SAME, **around), step(1, OTHER, **around))
    assert (found.code, found.where.path, found.where.line, found.where.ranks) == ("DC750", "train.py", 41, "0-1")
    assert "the gradient of body.weight has the norm 1 on rank 0 and 1.4 on rank 1 at step 1" in found.message
    assert "train.py:23" in found.message
    assert found.evidence["gradient_norm_by_rank"] == {"0": 1.0, "1": 1.4}


def test_bad_dc750_the_wrapper_and_a_second_loss_around_it() -> None:
    (found,) = judged(*(step(rank, one, around=("train.py:44",)) for rank, one in enumerate((SAME, OTHER))))
    assert (found.code, found.where.line) == ("DC750", 44)
    assert "and 1 go through it" in found.message


def test_bad_dc750_no_forward_at_all() -> None:
    """Its parameters are used without the module."""
    (found,) = judged(step(0, SAME, since=0), step(1, OTHER, since=0))
    assert (found.code, found.where.line) == ("DC750", 23)


def test_bad_dc750_one_step_moves_the_parameters_by_little() -> None:
    rows = [step(rank, one, around=("train.py:41",), since=0) for rank, one in enumerate((SAME, OTHER))]
    assert [found.code for found in judged(*rows, last(0, [1, 1.0, 0.5, 32]), last(1, [2, 1.0, 0.500001, 32]))] == [
        "DC750"
    ]


def test_bad_dc750_a_parameter_without_an_effect_stays_equal() -> None:
    """A bias in front of a normalisation: its gradients are rounding errors."""
    rows = []
    for nth in (1, 2):
        for rank, one in enumerate((SAME, OTHER)):
            row = step(rank, one, nth=nth, around=("train.py:41",), since=0, value=one if nth > 1 else SAME)
            row.data["parameters"].insert(0, ["body.bias", "owned", [rank, rank * 1e-9, 0.0, 32], SAME])
            rows.append(row)
    (found,) = judged(*rows)
    assert found.evidence["parameters_that_differ"] == ["body.weight"]


def test_bad_dc750_once_for_all_steps() -> None:
    rows = [
        step(rank, one, nth=nth, around=("train.py:41",), since=0, value=one if nth > 1 else SAME)
        for nth in (1, 2, 3)
        for rank, one in enumerate((SAME, OTHER))
    ]
    assert [found.code for found in judged(*rows)] == ["DC750"]


@pytest.mark.parametrize(
    "rows",
    [
        # a penalty, an evaluation: the gradients are equal
        [step(0, SAME, around=("train.py:41",)), step(1, SAME, around=("train.py:41",))],
        # gradients that are reduced by hand
        [step(0, SAME, around=("train.py:41",), since=0), step(1, SAME, around=("train.py:41",), since=0)],
        # parameters that are averaged by hand, until the last that was seen
        [
            step(rank, one, nth=nth, around=("train.py:41",), since=0)
            for nth in (1, 2)
            for rank, one in enumerate((SAME, OTHER))
        ],
        # the same at the only step
        [*(step(rank, one, around=("t.py:1",), since=0) for rank, one in enumerate((SAME, OTHER))),
         last(0, SAME, 0), last(1, SAME, 0)],
        # forwards through the wrapper: no_sync(), a hook that leaves the ranks apart on purpose
        [step(0, SAME), step(1, OTHER)],
        [step(0, SAME, hooks=1), step(1, OTHER, hooks=1)],
        # a scaler has skipped a step on one rank: these are not the same step
        [step(0, SAME, nth=1, forwards=2, around=("t.py:1",)), step(1, OTHER, nth=1, forwards=1, around=("t.py:1",))],
        # a part that one rank has not used
        [step(0, SAME, around=("t.py:1",)), step(1, None, around=("t.py:1",))],
        # one rank trains alone
        [step(0, SAME, around=("t.py:1",), since=0)],
        # the last bits
        [step(0, [1, 1.0, 0.5, 32], since=0), step(1, [2, 1.0001, 0.5001, 32], since=0)],
        [step(0, [1, 1.0, 0.5, 16], since=0), step(1, [2, 1.01, 0.49, 16], since=0)],
    ],
)  # fmt: skip
def test_good_dc750(rows: list[LoggedEvent]) -> None:
    assert not judged(*rows)


def test_good_dc750_two_groups_have_gradients_of_their_own() -> None:
    """Parts of a model that is shared out among ranks, each with copies elsewhere."""
    around = {"around": ("train.py:41",), "since": 0}
    rows = [wrap(rank, (0, 2) if rank % 2 == 0 else (1, 3)) for rank in range(4)]
    rows += [step(rank, SAME if rank % 2 == 0 else OTHER, **around) for rank in range(4)]
    assert not report(*rows).findings


# DC751


def test_bad_dc751_unfrozen_after_the_wrap() -> None:
    rows = [switch(0, True), switch(1, True), step(0, SAME, nth=2, state="unfrozen")]
    (found,) = judged(*rows, step(1, OTHER, nth=2, state="unfrozen"))
    assert (found.code, found.where.line, found.where.ranks) == ("DC751", 35, "0-1")
    assert "body.weight was unfrozen after DDP wrapped the model at train.py:23" in found.message


def test_bad_dc751_added_after_the_wrap() -> None:
    (found,) = judged(step(0, SAME, state="added"), step(1, OTHER, state="added"))
    assert (found.code, found.where.line) == ("DC751", 23)


def test_bad_dc751_replaced() -> None:
    (found,) = judged(step(0, SAME, state="replaced"), step(1, OTHER, state="replaced"))
    assert (found.code, found.where.line) == ("DC751", 23)
    assert "took the place of another parameter after DDP wrapped the model at train.py:23" in found.message


def test_bad_dc751_frozen_and_waited_for() -> None:
    detail = "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one."
    ends = tuple(End(rank, how="raised", status=1, detail=detail) for rank in (0, 1))
    (found,) = judged(switch(0, False, 38), switch(1, False, 38), step(0, SAME), step(1, SAME), ends=ends)
    assert (found.code, found.where.line, found.where.ranks) == ("DC751", 38, "0-1")


@pytest.mark.parametrize(
    "rows",
    [
        # off and on again, as the two sides of a GAN do
        [switch(0, False), switch(1, False), switch(0, True), switch(1, True), step(0, SAME), step(1, SAME)],
        # unfrozen, and averaged by hand
        [switch(0, True), switch(1, True), step(0, SAME, state="unfrozen"), step(1, SAME, state="unfrozen")],
    ],
)
def test_good_dc751(rows: list[LoggedEvent]) -> None:
    assert not judged(*rows)


def test_good_dc751_another_failure_beside_a_frozen_part() -> None:
    ends = (End(0, how="raised", status=1, detail="ValueError: no data"),)
    assert not judged(switch(0, False), switch(1, False), step(0, SAME), step(1, SAME), ends=ends)


# DC756


def test_bad_dc756_moved_and_trained_on() -> None:
    rows = [move(0), move(1), *(step(rank, SAME, nth=nth) for nth in (1, 2) for rank in (0, 1))]
    (found,) = judged(*rows)
    assert (found.code, found.where.line, found.where.ranks) == ("DC756", 51, "0-1")
    assert "cuda:0 float32 to cpu float32" in found.message


def test_bad_dc756_moved_unseen() -> None:
    (found,) = judged(step(0, SAME, state="moved"), step(1, OTHER, state="moved"))
    assert (found.code, found.where.line) == ("DC756", 23)
    assert "was moved or cast" in found.message


def test_bad_dc763_copies_that_differ_before_the_first_step() -> None:
    rows = [step(rank, SAME, nth=nth, value=one) for nth in (1, 2) for rank, one in enumerate((SAME, OTHER))]
    (found,) = judged(*rows)
    assert (found.code, found.where.line) == ("DC763", 23)
    assert "body.weight has the norm 1 on rank 0 and 1.4 on rank 1" in found.message


def test_good_dc763_ddp_was_told_to_leave_the_copies_as_they_are() -> None:
    """``init_sync=False``: that they differ is DC763, and no rank has changed anything."""
    rows = [step(rank, SAME, nth=nth, value=one) for nth in (1, 2) for rank, one in enumerate((SAME, OTHER))]
    assert not report(*(wrap(rank, shared=False) for rank in (0, 1)), *rows).findings


@pytest.mark.parametrize(
    "rows",
    [
        # after the last step
        [move(0, 2), move(1, 2), *(step(rank, SAME, nth=nth) for nth in (1, 2) for rank in (0, 1))],
        # equal by the time of the next step: sent to all after the first
        [
            *(step(rank, SAME, value=one) for rank, one in enumerate((SAME, OTHER))),
            *(step(rank, SAME, nth=2) for rank in (0, 1)),
        ],
    ],
)
def test_good_dc756_dc763(rows: list[LoggedEvent]) -> None:
    assert not judged(*rows)


def test_good_dc756_the_old_wrapper_of_one_that_was_wrapped_again() -> None:
    rows = [wrap(rank, number=1, line=60) for rank in (0, 1)]
    rows += [step(rank, SAME, nth=2, forwards=1, model=1) for rank in (0, 1)]
    assert not judged(move(0), move(1), step(0, SAME), step(1, SAME), *rows)


# what can't be judged


def test_without_ddp_there_is_nothing_to_judge() -> None:
    done = report()
    assert not done.findings and not done.not_checked
    assert any(probe.status == "not-applicable" for probe in done.probes)
    assert not report(wrap(0, (0,)), step(0, SAME)).not_checked


def test_no_step_is_not_checked() -> None:
    done = report(wrap(0), wrap(1))
    assert "no optimizer of torch" in done.not_checked[0].why


@pytest.mark.parametrize(
    ("one", "other", "differs"),
    [
        (Digest(1, 0.0, 0.0, 32), Digest(2, 0.0, 0.0, 32), False),
        (Digest(1, 1.0, 0.0, 32), Digest(2, 1.0, 0.9, 32), True),
        (Digest(1, float("nan"), 0.0, 32), Digest(2, float("nan"), 0.0, 32), False),
        (Digest(1, float("nan"), 0.0, 32), Digest(2, 1.0, 0.0, 32), True),
        (Digest(1, float("inf"), 0.0, 32), Digest(1, float("inf"), 0.0, 32), False),
    ],
)
def test_what_counts_as_a_difference(one: Digest, other: Digest, differs: bool) -> None:
    assert one.differs(other) is other.differs(one) is differs
