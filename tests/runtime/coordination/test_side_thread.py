"""The side threads of two ranks in one process, without torch: how they begin, pass the coordinator on, fail, and leave."""

from __future__ import annotations

import faulthandler
import mmap
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from distcheck.runtime.coordination.call_recorder import CallRecorder, TimeInCalls
from distcheck.runtime.coordination.model import CollectiveCall, Position, RecordedCall
from distcheck.runtime.coordination.protocol import (
    CLOSING,
    COORDINATOR,
    MISMATCH_REPORTED,
    OFF,
    RELEASED,
    REPORTING_RANK,
    rank_key,
    read_header,
    read_heartbeat,
    read_position,
)
from distcheck.runtime.coordination.rank_info import RankInfo
from distcheck.runtime.coordination.rank_monitor import RankMonitor
from distcheck.runtime.coordination.shared_table import OtherRank, SharedTable

from .test_coordinator import Reports, Store

#: Generous: the machine may do other things.
LIMIT_S = 30.0


class Connection:
    """Connects all monitors to the store that a job has now."""

    def __init__(self, ranks: Ranks, *, outlives_ranks: bool) -> None:
        self.outlives_ranks = outlives_ranks
        self.released = 0
        self._ranks = ranks

    def open(self) -> Store:
        return self._ranks.store

    def release(self) -> None:
        self.released += 1


class Ranks(Reports):
    """Side threads that share a store."""

    def __init__(self, world_size: int = 2, *, outlives_ranks: bool = True, tables: Any = None, **more: Any) -> None:
        super().__init__()
        self.store = Store()
        self.connection = Connection(self, outlives_ranks=outlives_ranks)
        self.monitors = [self.monitor(RankInfo(rank, world_size, host="gpu01"), **more) for rank in range(world_size)]
        for rank, monitor in enumerate(self.monitors if tables is not None else ()):
            monitor.calls.observe(None, tables(rank))

    def monitor(self, rank_info: Any, **more: Any) -> RankMonitor:
        return RankMonitor(CallRecorder(), rank_info, self.connection, self, **{"hang_timeout_s": 0.5, **more})


@pytest.fixture
def started() -> Iterator[list[RankMonitor]]:
    monitors: list[RankMonitor] = []
    yield monitors
    for monitor in monitors:
        monitor.leave()
        assert not monitor._thread.is_alive()
    # with abort, a process that does not end some seconds after this is ended: not the one that runs the tests
    faulthandler.cancel_dump_traceback_later()


def until(test: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT_S
    while not test():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.01)


def beat(ranks: Ranks, rank: int) -> int:
    text = ranks.store.values.get(rank_key(rank))
    return -2 if text is None else read_header(text).beat


def told(ranks: Ranks, rank: int) -> Position:
    """Where a rank has said that it is."""
    return read_position(read_heartbeat(ranks.store.values[rank_key(rank)]).position)


def begin(ranks: Ranks, started: list[RankMonitor]) -> None:
    """All at once, until each has told where it is, and told it again."""
    started += ranks.monitors
    for monitor in ranks.monitors:
        monitor.start()
    until(lambda: all(beat(ranks, monitor.rank_info.rank) > 1 for monitor in ranks.monitors))


def test_all_leave_and_the_last_sums_up(started: list[RankMonitor]) -> None:
    ranks = Ranks()
    begin(ranks, started)
    assert ranks.store.values[COORDINATOR].startswith("0 ")
    for monitor in ranks.monitors:
        monitor.ended("left", 0)
        assert ranks.summaries == []
        monitor.leave()
    (summary,) = ranks.summaries
    assert summary.healthy
    assert ranks.said == []


def test_ranks_of_a_round_before_leave_a_coordinator_that_can_be_read_at_any_time(started: list[RankMonitor]) -> None:
    """Another rank of this round may have asked whether it is there, and be about to read it."""
    ranks = Ranks()
    ranks.store.set(COORDINATOR, "1 7 0")
    ranks.store.set(rank_key(1), "left by the round before")
    there = []

    def delete(key: str) -> bool:
        removed = Store.delete_key(ranks.store, key)
        there.append((key, COORDINATOR in ranks.store.values))
        return removed

    ranks.store.delete_key = delete  # type: ignore[method-assign]
    started.append(ranks.monitors[0])
    ranks.monitors[0].start()
    until(lambda: beat(ranks, 0) > 1)
    assert there == [(rank_key(0), True), (rank_key(1), True)]
    assert ranks.store.values[COORDINATOR].startswith("0 ")


def test_a_rank_that_fails_is_no_end_to_sum_up(started: list[RankMonitor]) -> None:
    ranks = Ranks()
    started += ranks.monitors
    for monitor, status in zip(ranks.monitors, (0, 1), strict=True):
        monitor.start()
        until(lambda: beat(ranks, monitor.rank_info.rank) > 0)  # noqa: B023 - asked at once
        monitor.ended("left" if status == 0 else "raised", status, "KeyError: 'x'")
        monitor.leave()
    assert ranks.summaries == []


def test_who_has_the_coordinator_leaves_and_the_next_takes_it(started: list[RankMonitor]) -> None:
    ranks = Ranks()
    started += ranks.monitors
    for monitor in ranks.monitors:
        monitor.start()
    until(lambda: ranks.store.values.get(COORDINATOR, "").startswith("0 ") and beat(ranks, 1) > 1)
    ranks.monitors[0].ended("left", 0)
    ranks.monitors[0].leave()
    until(lambda: ranks.store.values[COORDINATOR].startswith("1 "))


@pytest.mark.slow
def test_a_parent_keeps_the_coordinator(started: list[RankMonitor]) -> None:
    ranks = Ranks()
    ranks.store.set(COORDINATOR, "-1 1 0")
    ranks.monitors[0].start()
    started.append(ranks.monitors[0])
    until(lambda: beat(ranks, 0) > 10)
    assert ranks.store.values[COORDINATOR] == "-1 1 0"


def test_the_rank_info_may_be_known_late(started: list[RankMonitor]) -> None:
    ranks = Ranks()
    rank_infos: list[RankInfo] = []
    monitor = ranks.monitor(lambda: rank_infos[0] if rank_infos else None)
    started.append(monitor)
    monitor.start()
    time.sleep(0.3)
    assert ranks.store.values == {}
    rank_infos.append(RankInfo(1, 2, host="gpu01"))
    until(lambda: beat(ranks, 1) > 0)
    assert monitor.rank_info.rank == 1


def test_what_fails_is_said_once_and_the_rank_is_left_alone(started: list[RankMonitor]) -> None:
    ranks = Ranks()
    monitor = ranks.monitors[1]
    started.append(monitor)
    broken = ["a note that no JSON can hold"]

    def digests() -> Any:
        raise TypeError(broken[0])

    monitor._here.digests = digests  # type: ignore[method-assign]
    monitor.start()
    until(lambda: beat(ranks, 1) == OFF)
    assert ranks.said == [f"distcheck watch: rank 1 no longer watches: TypeError: {broken[0]}"]
    assert not monitor._thread.is_alive() or monitor._thread.join(LIMIT_S) is None


@pytest.mark.slow
def test_the_store_goes_with_rank_0_and_all_let_go_of_it_before(started: list[RankMonitor]) -> None:
    """Whoever still asked a store that is gone would be told so by torch, on the script's standard error."""
    ranks = Ranks(outlives_ranks=False)
    begin(ranks, started)
    ranks.monitors[0].ended("left", 0)
    ranks.monitors[0].leave()
    assert ranks.store.values[CLOSING] == "1"
    assert ranks.store.values[RELEASED] == "1"
    # its script goes on, and nobody asks any more
    ranks.monitors[1]._thread.join(LIMIT_S)
    assert not ranks.monitors[1]._thread.is_alive()


def test_one_of_the_ranks_that_raised_reports_what_that_means(started: list[RankMonitor]) -> None:
    ranks = Ranks(world_size=3)
    begin(ranks, started)
    reported: list[int] = []
    for rank, monitor in enumerate(ranks.monitors):
        # no rule explains what rank 0 raised
        report = (lambda rank=rank: reported.append(rank)) if rank else None
        monitor.ended("raised", 1, "ValueError: no such split", report_failure=report)
        monitor.leave()
    assert reported == [1]


def test_another_group_has_another_store(started: list[RankMonitor]) -> None:
    ranks = Ranks(world_size=1, outlives_ranks=False)
    (monitor,) = ranks.monitors
    started.append(monitor)
    monitor.joining(())
    assert monitor.started
    until(lambda: beat(ranks, 0) > 1)
    before = ranks.store
    ranks.store = Store()
    monitor.joining(())
    assert ranks.connection.released == 1
    until(lambda: beat(ranks, 0) > 1)
    assert before is not ranks.store


def test_bad_a_rank_waits_for_one_that_has_ended(started: list[RankMonitor]) -> None:
    """DC519 or DC702: the main thread of rank 0 is in a call, that of rank 1 has left."""
    ranks = Ranks()
    started += ranks.monitors
    posts = ranks.monitors[0].calls
    call = CollectiveCall(1, "all_reduce", place="train.py:88")
    posts.entered["0"] = 1
    posts.inside[ranks.monitors[0]._here._main] = RecordedCall(call, time.monotonic(), 1, 1)
    for monitor in ranks.monitors:
        monitor.start()
    until(lambda: beat(ranks, 1) > 1)
    ranks.monitors[1].ended("left", 0)
    until(lambda: bool(ranks.reports))
    assert [position.state for position in ranks.reports[0].ranks] == ["waiting", "left"]
    assert ranks.reports[0].ranks[0].stack


@pytest.mark.slow
def test_calls_that_differ_are_told_before_torch_is_called(started: list[RankMonitor]) -> None:
    ranks = Ranks()
    begin(ranks, started)
    mine, theirs = CollectiveCall(3, "all_reduce", sizes=((19,),)), CollectiveCall(3, "all_reduce", sizes=((20,),))
    ranks.monitors[1].differs(RecordedCall(mine, 0.0, 1, 3), OtherRank(0, theirs))
    (report,) = ranks.reports
    assert report.mismatches[0].calls == (((0,), theirs), ((1,), mine))
    assert [position.call for position in report.ranks] == [theirs, mine]
    # once is enough
    ranks.monitors[0].differs(RecordedCall(theirs, 0.0, 1, 3), OtherRank(1, mine))
    assert len(ranks.reports) == 1


@pytest.mark.slow
def test_the_other_rank_tells_where_it_has_been_before(started: list[RankMonitor]) -> None:
    """Whichever of the two comes second: that one side has left a loop is seen by the lines it has called at."""
    memory = mmap.mmap(-1, 1 << 20)
    ranks = Ranks(tables=lambda rank: SharedTable(memory, rank, begun=0.0, index=rank, ranks=2))
    started += ranks.monitors
    there = ranks.monitors[0]
    there.start()
    until(lambda: beat(ranks, 0) > 1)
    theirs, mine = (
        CollectiveCall(5, "barrier", place="train.py:25"),
        CollectiveCall(5, "all_reduce", place="train.py:22"),
    )
    note = RecordedCall(theirs, time.monotonic(), 1, 5)
    there.calls.spent["train.py:22", "all_reduce", "0", True] = TimeInCalls(4, 0.1, 0.1)
    there.calls.ring.append(note)
    there.calls.inside[there._here._main] = note
    ranks.monitors[1].differs(RecordedCall(mine, 0.0, 2, 5), OtherRank(0, theirs))
    (report,) = ranks.reports
    assert report.ranks[0].call == theirs
    assert report.ranks[0].places == {"train.py:22": 4}
    assert report.ranks[0].stack
    # it was wanted for this once
    table = ranks.monitors[0].calls.shared_table
    assert table is not None
    until(lambda: not table.details_requested)
    quiet = beat(ranks, 0) + 2
    until(lambda: beat(ranks, 0) >= quiet)
    assert told(ranks, 0).places == {}


def test_a_rank_that_another_tells_of_waits_for_that(started: list[RankMonitor]) -> None:
    """Begun meanwhile, its call would end a third process, and the launcher the one that is about to tell."""
    ranks = Ranks()
    begin(ranks, started)
    ranks.store.set(REPORTING_RANK, "0")
    mine, theirs = CollectiveCall(3, "all_reduce", sizes=((19,),)), CollectiveCall(3, "all_reduce", sizes=((20,),))
    there = ranks.monitors[1]
    held = threading.Thread(
        target=there.differs, args=(RecordedCall(mine, time.monotonic(), 1, 3), OtherRank(0, theirs))
    )
    held.start()
    # as if it were the main thread: the rank goes on to post, and is seen in its call
    there._here._main = held.ident or 0
    until(lambda: (told(ranks, 1).state, told(ranks, 1).call) == ("waiting", mine))
    assert held.is_alive()
    ranks.store.set(MISMATCH_REPORTED, "1")
    held.join(LIMIT_S)
    assert not held.is_alive()
    assert there.calls.inside == {}
    assert ranks.reports == []


@pytest.mark.slow
def test_who_calls_the_same_is_told_together(started: list[RankMonitor]) -> None:
    ranks = Ranks(4)
    started += ranks.monitors
    theirs, mine = CollectiveCall(3, "all_reduce", sizes=((20,),)), CollectiveCall(3, "all_reduce", sizes=((19,),))
    for monitor in ranks.monitors[:3]:
        monitor.calls.inside[monitor._here._main] = RecordedCall(theirs, time.monotonic(), 1, 3)
        monitor.start()
    until(lambda: all(beat(ranks, rank) > 1 for rank in range(3)))
    ranks.monitors[3].differs(RecordedCall(mine, 0.0, 1, 3), OtherRank(1, theirs))
    (report,) = ranks.reports
    assert report.mismatches[0].calls == (((0, 1, 2), theirs), ((3,), mine))


@pytest.mark.parametrize("abort", [True, False])
def test_a_hang_in_calls_that_differ_ends_the_job_where_that_is_wanted(
    started: list[RankMonitor], monkeypatch: pytest.MonkeyPatch, abort: bool
) -> None:
    ended: list[RankMonitor] = []
    monkeypatch.setattr(RankMonitor, "_abort", lambda self: (ended.append(self), self._stop.set()))
    ranks = Ranks(abort=abort)
    begin(ranks, started)
    calls = CollectiveCall(3, "all_reduce", sizes=((20,),)), CollectiveCall(3, "barrier")
    for rank, monitor in enumerate(ranks.monitors):
        note = RecordedCall(calls[rank], time.monotonic(), 11 + rank, 3)
        monitor.calls.entered["0"] = 3
        monitor.calls.ring.append(note)
        monitor.calls.inside[monitor._here._main] = note
    ranks.monitors[1].differs(RecordedCall(calls[1], time.monotonic(), 12, 3), OtherRank(0, calls[0]))
    if abort:
        until(lambda: len(ended) == 2)
        assert ranks.said == [
            "distcheck watch: the job hangs because call #3 of the default group differs between ranks, and ends with "
            "status 1"
        ]
    else:
        until(
            lambda: any(monitor._coordinator is not None and monitor._coordinator.hangs for monitor in ranks.monitors)
        )
        assert ranks.said == []
        assert ended == []
    assert len(ranks.reports) == 1


@pytest.mark.slow
def test_calls_that_differ_before_the_first_tick_are_told_too(started: list[RankMonitor]) -> None:
    """gloo ends a process whose sizes differ: nobody comes to a second one."""
    ranks = Ranks()
    started += ranks.monitors
    ranks.monitors[0].start()
    until(lambda: beat(ranks, 0) > 1)
    mine, theirs = CollectiveCall(1, "all_reduce", sizes=((19,),)), CollectiveCall(1, "all_reduce", sizes=((20,),))
    ranks.monitors[1].differs(RecordedCall(mine, 0.0, 1, 1), OtherRank(0, theirs))
    (report,) = ranks.reports
    assert report.mismatches[0].calls == (((0,), theirs), ((1,), mine))
    assert [position.call for position in report.ranks] == [theirs, mine]


@pytest.mark.parametrize("abort", [True, False])
def test_a_key_of_a_stranger_ends_no_job_that_is_not_to_be_ended(
    started: list[RankMonitor], monkeypatch: pytest.MonkeyPatch, abort: bool
) -> None:
    """The request to end was obeyed without --on-hang abort, too."""
    ended: list[RankMonitor] = []
    monkeypatch.setattr(RankMonitor, "_abort", lambda self: (ended.append(self), self._stop.set()))
    ranks = Ranks(abort=abort)
    begin(ranks, started)
    ranks.store.set(COORDINATOR, "9 1 -1")
    before = [beat(ranks, rank) for rank in range(2)]
    until(lambda: bool(ended) if abort else all(beat(ranks, rank) > before[rank] + 3 for rank in range(2)))
    assert bool(ended) == abort
