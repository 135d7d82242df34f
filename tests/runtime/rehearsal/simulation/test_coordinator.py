"""The parent's side of a rehearsal, asked by ranks that have no torch: they agree, wait, end together, and are stopped."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from distcheck.core.checker import Checker
from distcheck.core.model import Finding, to_plain
from distcheck.runtime.coordination.call_recorder import CallRecorder
from distcheck.runtime.coordination.coordinator import MonitorReporter
from distcheck.runtime.coordination.model import CollectiveCall, Position, Positions, RecordedCall
from distcheck.runtime.coordination.protocol import OFF, Heartbeat, packed_heartbeat, rank_key
from distcheck.runtime.coordination.rank_info import RankInfo
from distcheck.runtime.coordination.rank_monitor import RankMonitor
from distcheck.runtime.rehearsal.simulation.coordinator import STOPPED, TICK_S, RehearsalCoordinator
from distcheck.runtime.rehearsal.simulation.hooks.agreement import ParentConnection, ParentStoreConnection
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan

HANG_TIMEOUT_S = 0.5
X = CollectiveCall(1, "all_reduce", sizes=((20,),), dtypes=("float32",), reduce="sum", place="train.py:8")


class Rank:
    """Says what a rank would say; its side thread is the real one."""

    def __init__(self, plan: RehearsalPlan, rank: int) -> None:
        self.plan = plan
        self.rank = rank
        self.recorder = CallRecorder()
        self.answers: dict[str, dict[str, Any]] = {}
        self._threads: list[threading.Thread] = []
        ParentConnection(plan.private).ask("sit", rank=rank, world_size=plan.world_size, pid=os.getpid())
        self.monitor = RankMonitor(
            self.recorder, RankInfo(rank, plan.world_size, host="node 0"), ParentStoreConnection(plan.private),
            MonitorReporter(), hang_timeout_s=plan.hang_timeout_s, tick_s=TICK_S,
        )  # fmt: skip
        self.monitor.start()

    def calls(self, call: CollectiveCall = X, *, waits: bool = True) -> None:
        """Enter a call, and wait in it until the parent lets it begin."""
        self.recorder.entered[call.group] = call.number
        note = RecordedCall(call, time.monotonic(), 1, call.number)
        self.recorder.ring.append(note)
        main = threading.main_thread().ident or 0
        self.recorder.inside[main] = note

        def answered() -> None:
            del self.recorder.inside[main]
            self.recorder.done += 1

        self._ask(
            "agree", answered, ranks=range(self.plan.world_size), ordinal=call.number, call=to_plain(call), waits=waits
        )

    def finishes(self, steps: int, step_s: float = 0.01) -> None:
        self._ask("finished", lambda: None, steps=steps, step_s=step_s)

    def _ask(self, what: str, then: Callable[[], None], **more: Any) -> None:
        self.answers.pop(what, None)

        def ask() -> None:
            more_of_it = {name: list(value) if isinstance(value, range) else value for name, value in more.items()}
            answer = ParentConnection(self.plan.private).ask(what, rank=self.rank, **more_of_it)
            then()
            self.answers[what] = answer

        thread = threading.Thread(target=ask, daemon=True)
        self._threads.append(thread)
        thread.start()


class Stage:
    """A coordinator with ranks of this process."""

    def __init__(self, folder: Path) -> None:
        self.plan = RehearsalPlan("train.py", private=str(folder), steps=3, hang_timeout_s=HANG_TIMEOUT_S)
        self.coordinator = RehearsalCoordinator(self.plan)
        self.coordinator.start()
        self.ranks = [Rank(self.plan, rank) for rank in range(self.plan.world_size)]

    def until(self, what: Callable[[], object], limit_s: float = 30.0) -> None:
        end = time.monotonic() + limit_s
        while not what():
            assert time.monotonic() < end, "it did not come"
            time.sleep(0.01)

    def verdict(self) -> tuple[Finding, ...]:
        self.until(self.coordinator.verdict)
        checker = Checker(modules=("distcheck.runtime.coordination.hang_detector",), plug_ins=False)
        return checker.plan(Positions, command="rehearse", closed=True).run(self.coordinator.verdict()).findings

    def stays_silent(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert self.coordinator.verdict() is None
            time.sleep(0.05)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    made.coordinator.close()
    for rank in made.ranks:
        rank.monitor.leave()


def test_a_call_begins_when_all_have_come(stage: Stage) -> None:
    zero, one = stage.ranks
    zero.calls()
    stage.stays_silent(0.2)
    assert "agree" not in zero.answers
    one.calls()
    stage.until(lambda: "agree" in zero.answers and "agree" in one.answers)


def test_good_an_asynchronous_call_does_not_wait(stage: Stage) -> None:
    stage.ranks[0].calls(waits=False)
    stage.until(lambda: "agree" in stage.ranks[0].answers)


def test_bad_calls_that_differ_do_not_begin(stage: Stage) -> None:
    zero, one = stage.ranks
    zero.calls()
    # the first of two that differ is known by nothing, and one that does not wait would begin
    stage.until(lambda: 0 in stage.coordinator.last_calls())
    one.calls(X._replace(sizes=((30,),)), waits=False)
    (finding,) = stage.verdict()
    assert finding.code == "DC709"
    assert "differs in sizes: rank 0 calls all_reduce #1 (float32 [20]) at train.py:8; rank 1" in finding.message
    assert not zero.answers
    assert not one.answers
    positions = stage.coordinator.verdict()
    assert positions is not None
    assert all(position.stack for position in positions.ranks), "no stacks"


@pytest.mark.slow
def test_bad_a_rank_has_ended_before_a_call(stage: Stage) -> None:
    stage.ranks[0].calls()
    stage.coordinator.gone(1, 3)
    (finding,) = stage.verdict()
    assert finding.code == "DC702"
    assert finding.message == (
        "rank 0 waits in all_reduce #1 (float32 [20]) at train.py:8; rank 1 has ended with status 3"
    )


@pytest.mark.slow
def test_good_a_rank_that_computes_may_yet_come(stage: Stage) -> None:
    stage.ranks[0].calls()
    stage.stays_silent(6 * HANG_TIMEOUT_S)


@pytest.mark.slow
def test_good_who_waits_for_a_rank_that_has_raised_is_no_news(stage: Stage) -> None:
    zero, one = stage.ranks
    one.monitor.ended("raised", 1, "ValueError: a bad file")
    one.monitor.leave()
    zero.calls()
    stage.stays_silent(4 * HANG_TIMEOUT_S)


@pytest.mark.slow
def test_ranks_end_together(stage: Stage) -> None:
    zero, one = stage.ranks
    zero.finishes(3)
    stage.stays_silent(2 * HANG_TIMEOUT_S)
    assert not zero.answers
    one.finishes(3)
    stage.until(lambda: zero.answers and one.answers)
    assert zero.answers["finished"] == one.answers["finished"] == {"end": True}
    assert stage.coordinator.over()
    assert stage.coordinator.unfinished() == ()


@pytest.mark.slow
def test_ranks_do_more_steps_together_while_these_are_fast(stage: Stage) -> None:
    stage.coordinator.plan = stage.plan._replace(most_steps=5)

    def answers(steps: int, step_s: float = 0.01) -> list[bool]:
        for rank in stage.ranks:
            rank.finishes(steps, step_s)
        stage.until(lambda: all("finished" in rank.answers for rank in stage.ranks))
        return [rank.answers["finished"]["end"] for rank in stage.ranks]

    assert [answers(steps) for steps in (3, 4, 5)] == [[False] * 2, [False] * 2, [True] * 2]
    assert stage.coordinator.unfinished() == ()


def test_ranks_do_no_more_steps_if_these_are_slow(stage: Stage) -> None:
    stage.coordinator.plan = stage.plan._replace(most_steps=16)
    for rank in stage.ranks:
        rank.finishes(3, 60.0)
    stage.until(lambda: all("finished" in rank.answers for rank in stage.ranks))
    assert all(rank.answers["finished"] == {"end": True} for rank in stage.ranks)


def test_good_a_rank_that_has_done_its_steps_goes_on_for_another(stage: Stage) -> None:
    """A stage of a pipeline, or one without an optimizer."""
    zero, one = stage.ranks
    zero.finishes(3)
    one.calls()
    stage.until(lambda: "finished" in zero.answers)
    assert zero.answers["finished"] == {"end": False}
    zero.calls()
    stage.until(lambda: "agree" in one.answers)
    # it has waited for long enough when it has done twice as many
    zero.finishes(7)
    stage.until(lambda: zero.answers.get("finished") == {"end": True})
    assert stage.coordinator.unfinished() == (1,)
    assert stage.coordinator.verdict() is None


def test_the_last_end_together_with_those_that_have_left(stage: Stage) -> None:
    stage.ranks[0].finishes(3)
    stage.coordinator.gone(1, 0)
    stage.until(lambda: stage.ranks[0].answers)
    assert stage.ranks[0].answers["finished"] == {"end": True}


CHILD = """
import os, sys, time
from distcheck.runtime.rehearsal.simulation.hooks import agreement
from distcheck.runtime.rehearsal.simulation.event_log import EventLog
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan
plan = RehearsalPlan("train.py", private=sys.argv[1])
on_stop = lambda reason: os.write(2, f"stopped: {reason}\\n".encode())
agreement.Agreement(plan, EventLog(sys.argv[1], 0.0, 0), on_stop).install()
print("buffered", end="")
os.write(2, b"here\\n")
time.sleep(60)
"""


@pytest.mark.parametrize("how", ["told", "alone"])
def test_a_rank_ends_when_it_is_told_to_or_left_alone(tmp_path: Path, how: str) -> None:
    coordinator = RehearsalCoordinator(RehearsalPlan("train.py", private=str(tmp_path)))
    coordinator.start()
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])}
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path)], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stderr is not None
        assert child.stderr.readline() == b"here\n"
        if how == "told":
            coordinator.stop("enough")
        else:
            coordinator.close()
        out, error = child.communicate(timeout=60)
    assert child.returncode == STOPPED
    assert out == b"buffered"
    assert error.decode().startswith("stopped: enough" if how == "told" else "stopped: ")
    if how == "told":
        coordinator.close()


@pytest.mark.parametrize("temporary", ["short", "deep"])
def test_a_folder_too_deep_for_the_address_of_a_socket(
    temporary: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    if temporary == "deep":
        monkeypatch.setattr("tempfile.tempdir", str(deep))
    coordinator = RehearsalCoordinator(RehearsalPlan("train.py", private=str(deep)))
    coordinator.start()
    store = ParentStoreConnection(str(deep)).open()
    folder = Path((deep / "coordinator").read_text()).parent
    try:
        store.set("a", "1")
        assert store.get("a") == "1"
        assert store.multi_get(["a", "a"]) == ["1", "1"]
        assert store.check(["a"])
        assert not store.check(["a", "b"])
        # as torch's TCPStore answers
        assert store.compare_set("b", "", "2") == "2"
        assert store.compare_set("b", "", "3") == "2"
        assert store.compare_set("b", "2", "3") == "3"
        assert store.add("c", 2) == 2
        assert store.add("c", 3) == 5
        assert store.delete_key("c")
        assert not store.delete_key("c")
    finally:
        coordinator.close()
    assert not folder.exists()


def test_a_rank_whose_position_is_lost_is_an_error(stage: Stage) -> None:
    """Without it no hang of this rank would be seen, and the rehearsal would not end."""
    monitor = stage.ranks[1].monitor
    stage.until(lambda: monitor.started)
    monitor.leave()
    stage.coordinator.store.set(rank_key(1), packed_heartbeat(Heartbeat(OFF, Position(1))))
    stage.until(lambda: stage.coordinator.error)
    assert stage.coordinator.error == "rank 1 sends no positions"
