"""When a rank ends, and what it says of that: counted in optimizer steps, whatever optimizers there are."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from distcheck.runtime.coordination.logged_events import LoggedEvent
from distcheck.runtime.coordination.model import SETUP, Frame
from distcheck.runtime.coordination.run_script import ScriptExit
from distcheck.runtime.rehearsal.simulation.event_log import EventLog, read_rows
from distcheck.runtime.rehearsal.simulation.launcher import _LoggedSteps
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan
from distcheck.runtime.rehearsal.simulation.worker_exit import WorkerExit


class Optimizer:
    """Something that steps."""


class Agreement:
    """Says when all have done their steps."""

    def __init__(self, *answers: bool) -> None:
        self.answers = list(answers)
        self.asked: list[int] = []
        self.told: list[ScriptExit] = []
        self.left = 0

    def finished(self, steps: int, step_s: float) -> bool:
        self.asked.append(steps)
        return self.answers.pop(0)

    def ended(self, ended: ScriptExit) -> None:
        self.told.append(ended)

    def leave(self) -> None:
        self.left += 1


class EndsHereError(Exception):
    pass


@pytest.fixture
def ending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WorkerExit:
    made = WorkerExit(EventLog(str(tmp_path), 0.0, 1), RehearsalPlan("train.py", steps=2))

    def end() -> None:
        raise EndsHereError

    monkeypatch.setattr(made, "_end_here", end)
    return made


def step(ending: WorkerExit, optimizer: object) -> None:
    ending._before_step(optimizer)
    ending._after_step(optimizer)


def rows(tmp_path: Path, kind: str) -> list[LoggedEvent]:
    return [row for row in read_rows(str(tmp_path)) if row.kind == kind]


def test_it_ends_where_the_next_step_would_begin(ending: WorkerExit) -> None:
    optimizer = Optimizer()
    step(ending, optimizer)
    step(ending, optimizer)
    with pytest.raises(EndsHereError):
        step(ending, optimizer)


def test_optimizers_that_take_turns_make_one_step(ending: WorkerExit, tmp_path: Path) -> None:
    first, second = Optimizer(), Optimizer()
    for _ in range(2):
        step(ending, first)
        step(ending, second)
    assert ending.event_log.step == 2
    assert [row.step for row in rows(tmp_path, "stage.step")] == [1, 2]


def test_an_optimizer_of_rpc_counts_and_waits_for_no_rank(ending: WorkerExit, tmp_path: Path) -> None:
    class DistributedOptimizer:
        def step(self, context: int) -> int:
            return context + 1

    ending._attach_rpc(SimpleNamespace(DistributedOptimizer=DistributedOptimizer))
    optimizer = DistributedOptimizer()
    assert [optimizer.step(number) for number in range(4)] == [1, 2, 3, 4]
    assert len(rows(tmp_path, "stage.step")) == 4


def test_a_rank_that_another_one_needs_goes_on(ending: WorkerExit) -> None:
    ending.agreement = Agreement(False, True)
    optimizer = Optimizer()
    for _ in range(3):
        step(ending, optimizer)
    with pytest.raises(EndsHereError):
        step(ending, optimizer)
    assert ending.agreement.asked == [2, 3]


def test_without_a_limit_it_never_ends(ending: WorkerExit) -> None:
    ending.plan = ending.plan._replace(steps=None)
    optimizer = Optimizer()
    for _ in range(20):
        step(ending, optimizer)


def test_how_it_ended_is_said_once_with_the_users_line(ending: WorkerExit, tmp_path: Path) -> None:
    stack = (Frame("torch/nn.py", 3, "forward"), Frame("train.py", 7, "main", own=True))
    ending.agreement = Agreement()
    ending.event_log.calls.entered[SETUP] = 1
    ending.ended(ScriptExit("raised", 1, "ValueError: no", stack))
    ending.stopped("time")
    (row,) = rows(tmp_path, "stage.end")
    assert (row.rank, row.place, row.function) == (1, "train.py:7", "main")
    assert row.data == {"how": "raised", "status": 1, "detail": "ValueError: no", "joined": True}
    assert ending.agreement.told[0].status == 1


def test_a_rank_that_is_stopped_says_so_and_writes_what_is_left(ending: WorkerExit, tmp_path: Path) -> None:
    ending.event_log.at_end.append(lambda: ending.event_log.note("topic.last"))
    ending.stopped("a verdict")
    (row,) = rows(tmp_path, "stage.end")
    assert row.data == {"how": "stopped", "status": 0, "detail": "a verdict", "joined": False}
    assert len(rows(tmp_path, "topic.last")) == 1


def test_whoever_fails_at_the_end_harms_nobody(ending: WorkerExit, tmp_path: Path) -> None:
    def fail() -> None:
        raise KeyError("x")

    ending.event_log.at_end += [fail, lambda: ending.event_log.note("topic.last")]
    ending.agreement = Agreement()
    ending.leave()
    assert len(rows(tmp_path, "topic.last")) == 1
    assert rows(tmp_path, "stage.lost")[0].data == {"kinds": {"end": 1}}
    assert ending.agreement.left == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_leaves_the_end_to_its_parent(ending: WorkerExit, tmp_path: Path) -> None:
    ending.event_log.at_end.append(lambda: ending.event_log.note("topic.last"))
    pid = os.fork()
    if not pid:
        ending.leave()
        os._exit(0)
    os.waitpid(pid, 0)
    assert rows(tmp_path, "topic.last") == []
    ending.leave()
    assert [row.pid for row in rows(tmp_path, "topic.last")] == [os.getpid()]


def test_how_far_the_ranks_are_is_read_as_they_write(tmp_path: Path) -> None:
    plan = RehearsalPlan("train.py")
    steps: Any = _LoggedSteps(str(tmp_path))

    def text() -> str:
        steps._next = 0.0
        return str(steps.text(plan))

    assert text() == "before the first step"
    paths = [tmp_path / f"{number}.jsonl" for number in range(2)]
    for rank, path in enumerate(paths):
        path.write_text(f'["stage.began", {rank}, 7, 0.1, 0, "", "", {{}}]\n')
    assert text() == "before the first step"
    done = '["stage.step", {}, 7, 0.1, 1, "a.py:1", "", {{"x": "[\\"stage.step\\", 1"}}]\n'
    with paths[0].open("a") as file:
        file.write(done.format(0) * 2)
    assert text() == "step 2 of 3, rank 1 at step 0"
    with paths[1].open("a") as file:
        file.write(done.format(1) * 2 + '["stage.step", 1, 7')
    assert text() == "step 2 of 3"
