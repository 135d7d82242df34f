"""The coordinator over posts that nobody sent: its store is a dictionary, and its clock is moved by hand."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from distcheck.runtime.coordination.code_blocks import with_blocks
from distcheck.runtime.coordination.coordinator import Coordinator, MonitorReporter
from distcheck.runtime.coordination.ledger import Summary
from distcheck.runtime.coordination.long_waits import LongWait
from distcheck.runtime.coordination.model import SETUP, CollectiveCall, Frame, Position, Positions
from distcheck.runtime.coordination.processes import kernel_state
from distcheck.runtime.coordination.protocol import (
    OFF,
    REQUEST,
    Heartbeat,
    differs_key,
    packed,
    packed_heartbeat,
    packed_ranks,
    rank_key,
    read_header,
    read_heartbeat,
    read_position,
    read_request,
    stack_key,
    unpacked_ranks,
)
from distcheck.runtime.coordination.store_client import MemoryStore

EVAL = Frame("eval.py", 41, "validate", own=True)


class Store(MemoryStore):
    """A store that counts its requests."""

    def __init__(self) -> None:
        super().__init__()
        self.checks = 0

    def check(self, keys: Sequence[str]) -> bool:
        self.checks += 1
        return super().check(keys)


class Reports(MonitorReporter):
    """Keeps what a coordinator or a monitor reports."""

    def __init__(self) -> None:
        self.reports: list[Positions] = []
        self.said: list[str] = []
        self.long: list[LongWait] = []
        self.summaries: list[Summary] = []

    def hang(self, positions: Positions) -> None:
        self.reports.append(positions)

    def line(self, text: str) -> None:
        self.said.append(text)

    def long_wait(self, wait: LongWait) -> None:
        self.long.append(wait)

    def summary(self, summary: Summary) -> None:
        self.summaries.append(summary)


class Job(Reports):
    """Ranks that tell where they are, and the coordinator that reads them."""

    def __init__(self, world_size: int, *, hang_timeout_s: float = 20.0, space: str = "") -> None:
        super().__init__()
        self.store = Store()
        self.now = 1000.0
        self.beat = 0
        self.coordinator = Coordinator(
            self.store,
            world_size,
            self,
            hang_timeout_s=hang_timeout_s,
            tick_s=1.0,
            space=space,
            clock=lambda: self.now,
            # a collection of garbage would put off the next look
            spent=lambda: 0.0,
        )

    def tell(self, position: Position, **more: Any) -> None:
        more.setdefault("answers", self.coordinator.question)
        self.store.set(
            rank_key(position.rank), packed_heartbeat(Heartbeat(more.pop("beat", self.beat), position, **more))
        )

    def tick(self, *positions: Position, seconds: float = 1.0, **more: Any) -> bool:
        """All tell where they are, and the coordinator looks."""
        self.now += seconds
        self.beat += 1
        for position in positions:
            self.tell(position, **more)
        return self.coordinator.look(self.beat)


def call(number: int, operation: str = "all_reduce", **more: Any) -> CollectiveCall:
    return CollectiveCall(
        number, operation, sizes=((20,),), dtypes=("float32",), place="train.py:88", function="main", **more
    )


def waiting(rank: int, number: int, since_s: float, operation: str = "all_reduce") -> Position:
    entered = call(number, operation)
    return Position(rank, "gpu01", 100 + rank, "waiting", entered, number - 1, since_s, entered={"0": number})


def computing(rank: int, number: int, done: int = 0) -> Position:
    return Position(rank, "gpu01", 100 + rank, "computing", call(number), done, stack=(EVAL,), entered={"0": number})


def left(rank: int, number: int) -> Position:
    return Position(rank, "gpu01", 100 + rank, "left", call(number), number, status=0, entered={"0": number})


# what is told survives the way


def test_posts_come_out_as_they_went_in() -> None:
    position = waiting(3, 7, 2.5)._replace(stack=(EVAL,), recent=(call(6),), places={"train.py:88": 7})
    text = packed_heartbeat(Heartbeat(5, position, {"0": ((1, 2),)}, "here", {"0": 600.0}, 4, {"1": "0-3"}))
    assert read_header(text) == (5, "waiting", 2.5, 6)
    post = read_heartbeat(text)
    assert post.beat == 5
    assert post.answers == 4
    assert post.timeouts == {"0": 600.0}
    found = read_position(post.position)
    assert found._replace(recent=()) == position._replace(recent=())
    assert found.own_frame == EVAL


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ((), ""),
        ((3,), "3"),
        ((0, 1, 2, 3), "0-3"),
        (tuple(range(0, 16384, 8)), "0-16376/8"),
        ((0, 1, 2, 8, 9, 10), "0-2,8-10"),
        ((5, 3, 1), "5,3,1"),
        ((0, 7, 8, 9), "0,7-9"),
    ],
)
def test_groups_of_thousands_stay_short(ranks: tuple[int, ...], text: str) -> None:
    assert packed_ranks(ranks) == text
    assert unpacked_ranks(text) == ranks


@pytest.mark.parametrize("text", ["0-99999999999", "0-1048575,0-1048575", "0-999999999999/2", "x", "1-2/0"])
def test_a_group_from_elsewhere_does_not_fill_the_memory(text: str) -> None:
    with pytest.raises(ValueError):
        unpacked_ranks(text)


# slow, and healthy


def test_good_an_evaluation_of_ten_minutes() -> None:
    """Rank 0 evaluates, all others wait in a barrier: nothing stands still, and somebody may want to know (DC726)."""
    job = Job(8)
    for second in range(600):
        job.tick(
            computing(0, 411), *(waiting(rank, 412, float(second), "barrier") for rank in range(1, 8)),
            timeouts={"0": 1800.0},
        )  # fmt: skip
    assert job.reports == []
    assert [round(wait.since_s) for wait in job.long] == [60, 120, 240, 480]
    assert job.long[0].text() == (
        "ranks 1-7 wait for 60 s in barrier #412 (float32 [20]) at train.py:88, for rank 0, which is in "
        "validate() at eval.py:41"
    )
    assert not job.long[-1].near
    assert job.said == []


def test_bad_half_of_the_timeout_is_over() -> None:
    """DC726: the group's own timeout will end the job."""
    job = Job(2)
    for second in range(0, 61, 5):
        job.tick(computing(0, 411), waiting(1, 412, float(second)), timeouts={"0": 100.0}, seconds=5.0)
    assert [round(wait.since_s) for wait in job.long] == [50]
    assert job.long[0].limit == "the group's timeout of 100 s would end the job"


def test_good_most_ranks_compute_and_one_is_early() -> None:
    job = Job(8)
    for second in range(300):
        job.tick(waiting(0, 412, float(second)), *(computing(rank, 411) for rank in range(1, 8)))
    assert job.reports == []
    assert job.long == []


def test_good_a_rank_has_not_begun_yet() -> None:
    """Seven wait in the first collective for one that still imports."""
    job = Job(8)
    for second in range(300):
        job.tick(*(waiting(rank, 1, float(second)) for rank in range(1, 8)))
    assert job.reports == []
    assert "it has not imported torch.distributed yet" in job.long[0].text()


# what stands


def test_bad_a_rank_has_left_and_is_named_within_the_hang_timeout() -> None:
    """DC519 or DC702, by where it was before: that is for the probes; here it is when, and how often."""
    job = Job(2)
    said_at = None
    for second in range(40):
        if job.tick(waiting(0, 412, float(second)), left(1, 411)):
            said_at = second
    assert said_at == 21
    assert len(job.reports) == 1
    (wait,) = [position for position in job.reports[0].ranks if position.state == "waiting"]
    assert wait.rank == 0


def test_what_goes_on_is_said_and_may_stand_again() -> None:
    job = Job(2)
    for second in range(25):
        job.tick(waiting(0, 412, float(second)), left(1, 411))
    job.tick(computing(0, 412, done=900), left(1, 411))
    assert job.said == ["distcheck watch: the job continues"]
    for second in range(25):
        job.tick(waiting(0, 950, float(second)), left(1, 411))
    assert len(job.reports) == 2


def test_what_goes_on_is_said_though_somebody_waits_long() -> None:
    """Rank 1 was stopped and is let go on: the others wait for it as before, and it computes."""
    job = Job(2)
    stopped = computing(1, 411)._replace(state="stopped")
    for second in range(25):
        job.tick(waiting(0, 412, float(second)), stopped)
    assert len(job.reports) == 1
    job.tick(waiting(0, 412, 26.0), computing(1, 411, done=900))
    assert job.said == ["distcheck watch: the job continues"]


def test_stacks_are_read_from_where_equal_ones_stand_once() -> None:
    job = Job(2)
    job.store.set(stack_key("abc"), packed([EVAL, Frame("train.py", 88, "main", own=True)]))
    for second in range(25):
        job.tick(waiting(0, 412, float(second)), left(1, 411), stack="abc")
    assert [frame.text for frame in job.reports[0].ranks[0].stack] == [
        "validate() at eval.py:41",
        "main() at train.py:88",
    ]


def test_a_call_that_no_python_made_is_asked_for() -> None:
    """NCCL: the main thread waits for the device, and only the recorder knows for which collective."""
    job = Job(2)
    unseen = waiting(0, 0, 0.0, "a collective")._replace(entered={"0": 412})
    for second in range(22):
        job.tick(unseen._replace(since_s=float(second)), left(1, 411))
    assert job.coordinator.question
    assert job.reports == []
    job.tick(waiting(0, 412, 23.0), left(1, 411))
    assert len(job.reports) == 1


# who gives no word


def silent_job(**post: Any) -> Job:
    """Rank 1, on another host, is not heard from any more; rank 2 is its neighbour."""
    job = Job(3, space="here")
    job.tick(waiting(0, 412, 0.0), space="here")
    job.tell(computing(1, 411), space="there", beat=1)
    for second in range(45):
        job.tick(waiting(2, 412, float(second)), space="there", **post)
        job.tell(waiting(0, 412, float(second)), space="here")
    return job


def test_good_a_neighbour_sees_that_it_lives() -> None:
    """A C extension that holds the interpreter's lock for minutes: no word, and no hang."""
    job = silent_job(process_states={"1": "R"})
    for second in range(45, 150):
        job.tick(waiting(2, 412, float(second)), space="there", process_states={"1": "R"})
        job.tell(waiting(0, 412, float(second)), space="here")
    assert job.reports == []
    assert read_request(job.store.get(REQUEST)).processes == {"there": {"1": 101}}


@pytest.mark.parametrize(("letter", "state"), [("T", "stopped"), ("", "left"), ("Z", "left")])
def test_bad_a_neighbour_sees_that_it_does_not(letter: str, state: str) -> None:
    (report,) = silent_job(process_states={"1": letter}).reports
    assert report.ranks[1].state == state


def test_who_can_not_be_vouched_for_is_given_three_times_the_hang_timeout() -> None:
    job = silent_job()
    assert job.reports == []
    for second in range(45, 80):
        job.tick(waiting(2, 412, float(second)), space="there")
        job.tell(waiting(0, 412, float(second)), space="here")
    (report,) = job.reports
    assert report.ranks[1].state == "silent"


def test_who_watches_no_longer_is_left_alone() -> None:
    job = Job(2)
    for second in range(100):
        job.now += 1
        job.beat += 1
        job.tell(waiting(0, 412, float(second)))
        job.tell(Position(1, detail="watch has stepped aside there"), beat=OFF)
        job.coordinator.look(job.beat)
    assert job.reports == []


def test_what_a_parent_knows_counts_more_than_posts() -> None:
    job = Job(2)
    job.coordinator.known[1] = Position(1, state="left", status=-9, detail="killed by SIGKILL")
    for second in range(25):
        job.tick(waiting(0, 412, float(second)), computing(1, 411))
    (report,) = job.reports
    assert (report.ranks[1].state, report.ranks[1].status) == ("left", -9)
    assert report.ranks[1].call == call(411)


def test_who_is_lost_is_looked_for_afterwards() -> None:
    """gloo notices at once that a peer is gone; who has never told anything is not said to be anywhere."""
    job = Job(3)
    lost = waiting(0, 5, 0.0)._replace(state="raised", detail="RuntimeError: Connection closed by peer [127.0.0.1]:1")
    job.tell(lost)
    job.tell(computing(1, 5))
    assert job.coordinator.check_lost_peer()
    (report,) = job.reports
    assert [position.state for position in report.ranks] == ["waiting", "computing", "silent"]
    assert report.over
    assert not job.coordinator.check_lost_peer()


def test_who_is_lost_has_no_process_any_more() -> None:
    """It has told a moment ago that it computes; what its parent knows counts as well."""
    job = Job(3, space="here")
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    lost = waiting(0, 5, 0.0)._replace(state="raised", detail="RuntimeError: Connection closed by peer [127.0.0.1]:1")
    job.tell(lost, space="here")
    job.tell(computing(1, 4)._replace(pid=gone.pid), space="here")
    job.coordinator.known[2] = Position(2, state="left", status=-9)
    assert job.coordinator.check_lost_peer()
    (report,) = job.reports
    assert [position.state for position in report.ranks] == ["waiting", "left", "left"]


# calls that differ


def test_bad_a_digest_that_differs_is_asked_for_and_named() -> None:
    job = Job(3)
    equal, other = ((1, 11), (2, 22), (3, 33)), ((1, 11), (2, 99), (3, 98))
    for second in range(4):
        job.now += 1
        job.beat += 1
        for rank in range(3):
            calls = [(2, call(2, reduce="max" if rank == 1 else "sum"))] if job.coordinator.question else []
            digests = {"0": other if rank == 1 else equal}
            job.tell(computing(rank, 3, done=second), digests=digests, calls={"0": calls})
        job.coordinator.look(job.beat)
    (report,) = job.reports
    (mismatch,) = report.mismatches
    assert [ranks for ranks, _ in mismatch.calls] == [(0, 2), (1,)]
    assert mismatch.calls[1][1].reduce == "max"


@pytest.mark.parametrize("answers_after", [2, 3, 99])
def test_what_was_asked_for_is_waited_for(answers_after: int) -> None:
    """For three ticks and a second at most."""
    job = Job(2)
    asked_at = reported_at = None
    for second in range(12):
        job.now += 1
        job.beat += 1
        answered = asked_at is not None and second - asked_at >= answers_after
        for rank in range(2):
            calls = {"0": [(2, call(2, "barrier" if rank else "all_reduce"))]} if answered else {}
            answers = job.coordinator.question if answered else 0
            job.tell(computing(rank, 3), digests={"0": ((1, 11), (2, 22 + rank))}, calls=calls, answers=answers)
        if job.coordinator.look(job.beat):
            reported_at = second
        if asked_at is None and job.coordinator.question:
            asked_at = second
    assert asked_at is not None
    assert reported_at == asked_at + min(answers_after, 4)
    ((mismatch,),) = (report.mismatches for report in job.reports)
    assert len(mismatch.calls) == (2 if answers_after < 4 else 0)


@pytest.mark.parametrize(
    ("first", "second", "between"),
    [
        (((1, 11), (2, 22), (3, 33)), ((1, 11), (2, 22), (3, 99)), [2, 3]),
        # what one rank alone has kept is not known to be equal
        (((1, 11), (2, 22), (3, 33)), ((1, 11), (3, 99)), [1, 3]),
        # ranks that are far apart have milestones in common: the calls since the last one are enough
        (((200, 33),), ((200, 99),), [136, 200]),
        (((2, 22), (200, 33)), ((2, 22), (200, 99)), [136, 200]),
    ],
)
def test_which_calls_are_asked_for(first: Any, second: Any, between: list[int]) -> None:
    job = Job(2)
    job.now += 1
    for rank, digests in enumerate((first, second)):
        job.tell(computing(rank, 3), digests={"0": digests})
    job.coordinator.look(1)
    assert read_request(job.store.get(REQUEST)).calls == {"0": between}


class Apart(Job):
    """Ranks 0 and 1 make different calls #2 in their group.

    :param told: rank 1 has told of it before its call began
    """

    def __init__(self, *others: Any, told: bool = True, second: str = "barrier", **more: Any) -> None:
        super().__init__(2 + len(others), hang_timeout_s=5.0)
        self.group = "1" if others else "0"
        self.calls = (call(2, group=self.group), call(2, second, group=self.group, **more))
        if told:
            self.store.set(differs_key(self.group), "1")

    def tick(self, *positions: Position, seconds: float = 1.0, **more: Any) -> bool:
        self.now += seconds
        self.beat += 1
        for position in positions:
            differ = position.rank < 2
            calls = {self.group: [(2, self.calls[position.rank])]} if self.coordinator.question and differ else {}
            digests = {self.group: ((1, 11), (2, 22 + position.rank))} if differ else {}
            self.tell(position, calls=calls, digests=digests, groups={"1": "0-1", "2": "2-3"}, **more)
        return self.coordinator.look(self.beat)

    def in_it(self, since_s: float) -> tuple[Position, Position]:
        first, second = (waiting(rank, 2, since_s) for rank in range(2))
        entered = {self.group: 2}
        return (
            first._replace(call=self.calls[0], entered=entered), second._replace(call=self.calls[1], entered=entered)
        )  # fmt: skip


@pytest.mark.parametrize("told", [True, False])
def test_bad_a_hang_in_calls_that_differ_is_known_within_the_hang_timeout(told: bool) -> None:
    """DC517 is reported at once, and once; that the job hangs since is known, with its cause."""
    job = Apart(told=told)
    known_at = None
    for second in range(200):
        job.tick(*job.in_it(float(second)))
        assert job.coordinator.hangs == (job.coordinator.cause is not None)
        if job.coordinator.hangs and known_at is None:
            known_at = second
    assert known_at is not None
    assert 5 <= known_at <= 8
    assert job.coordinator.cause == job.calls[0]
    assert [len(report.mismatches) for report in job.reports] == [1] * (not told)
    assert job.said == []


def test_bad_a_hang_after_groups_that_differ() -> None:
    """DC706 is reported once. The ranks make more groups, and hang in one that others do not have."""
    job = Apart()
    job.group = SETUP
    job.calls = tuple(call(2, "new_group", group=SETUP)._replace(sizes=((size,),)) for size in (1, 2))
    job.store.set(differs_key(SETUP), "1")
    for tick in range(4):
        job.tick(*(first._replace(entered={SETUP: 2}) for first in job.in_it(float(tick))))
    for tick in range(3):
        job.tick(*(computing(rank, 0, done=10 + tick)._replace(entered={SETUP: 3}) for rank in (0, 1)))
    for tick in range(20):
        waits = waiting(0, 1, float(tick))._replace(call=call(1, group="1"), entered={SETUP: 3, "1": 1}, done=20)
        makes = waiting(1, 4, float(tick))._replace(call=call(4, "new_group", group=SETUP), entered={SETUP: 4}, done=20)
        job.tick(waits, makes)
    assert job.coordinator.hangs
    assert job.coordinator.cause is not None
    assert (job.coordinator.cause.number, job.coordinator.cause.group) == (2, SETUP)
    assert job.reports == []


@pytest.mark.parametrize("differs", [{"reduce": "max"}, {"peer": 1}])
@pytest.mark.parametrize("told", [True, False])
def test_good_calls_that_differ_and_end(told: bool, differs: dict[str, Any]) -> None:
    """DC517 where torch lets them differ: no hang, whatever comes later."""
    job = Apart(told=told, second="all_reduce", **differs)
    for second in range(4):
        job.tick(*job.in_it(float(second)))
    for done in range(3, 40):
        job.tick(*(waiting(rank, done, 0.5)._replace(done=10 * done) for rank in range(2)))
        assert not job.coordinator.hangs
    # what is in calls of that number later is not in the calls that differ: a group may begin anew
    for second in range(50):
        job.tick(*(waiting(rank, 2, float(second)) for rank in range(2)))
        assert not job.coordinator.hangs
    assert len(job.reports) == (not told)


def test_bad_calls_that_differ_hang_while_another_group_goes_on() -> None:
    job = Apart(2, 3)
    for second in range(20):
        others = (
            computing(rank, 1, done=5 * second)._replace(entered={"2": 5 * second}, call=call(5 * second, group="2"))
            for rank in (2, 3)
        )
        job.tick(*job.in_it(float(second)), *others)
    assert job.coordinator.cause == job.calls[0]
    assert job.reports == []


@pytest.mark.parametrize("second", ["barrier", "all_reduce"])
def test_bad_another_group_hangs_as_well(second: str) -> None:
    """Rank 3 is stopped: no call that differs is the cause of that, and it has not been reported."""
    job = Apart(2, 3, second=second, reduce="" if second == "barrier" else "max")
    for tick in range(30):
        others = (
            waiting(2, 7, float(tick))._replace(call=call(7, group="2"), entered={"2": 7}),
            Position(3, "gpu01", 103, "stopped", entered={"2": 6}),
        )
        job.tick(*job.in_it(float(tick)), *others)
    (report,) = job.reports
    assert report.mismatches == ()
    assert report.ranks[3].state == "stopped"
    assert job.coordinator.hangs
    assert job.coordinator.cause is None


def test_bad_a_rank_leaves_after_calls_that_differed() -> None:
    """DC702: nothing has moved since the difference was told, and the hang is another one."""
    job = Apart(second="all_reduce", reduce="max")
    gone = left(1, 2)._replace(call=job.calls[1])
    for tick in range(30):
        job.tick(waiting(0, 3, float(tick)), gone)
    (report,) = job.reports
    assert report.mismatches == ()
    assert report.ranks[1].state == "left"
    assert job.coordinator.hangs


def test_a_hang_passes_and_another_comes() -> None:
    job = Job(2)
    for hang in (1, 2):
        for second in range(25):
            job.tick(waiting(0, 412 * hang, float(second)), left(1, 411))
        assert job.coordinator.hangs
        assert len(job.reports) == hang
        job.tick(computing(0, 412 * hang, done=900 * hang), left(1, 411))
        assert not job.coordinator.hangs


# many


def test_few_questions_find_who_is_there() -> None:
    job = Job(4096)
    for rank in range(4096):
        if rank != 77:
            job.tell(computing(rank, 1))
    job.tick()
    assert job.store.checks < 40
    assert len(job.coordinator._headers) == 4095


def test_positions_of_thousands_are_only_made_on_suspicion(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(4096)
    monkeypatch.setattr(job.coordinator, "positions", lambda **_: pytest.fail("nothing is suspicious"))
    assert not job.tick(*(waiting(rank, 5, 3.0) for rank in range(4095)), computing(4095, 4))


def test_good_a_difference_that_its_rank_has_told_is_not_told_again() -> None:
    """DC517: the rank that came second has told of it before its call began."""
    job = Job(2)
    job.store.set(differs_key("0"), "1")
    for second in range(60):
        for rank in range(2):
            calls = [(2, call(2, "barrier" if rank else "all_reduce"))] if job.coordinator.question else []
            job.tell(waiting(rank, 2, float(second)), digests={"0": ((1, 11), (2, 22 + rank))}, calls={"0": calls})
        job.now += 1
        job.beat += 1
        job.coordinator.look(job.beat)
    assert job.reports == []
    assert job.said == []


# what a stranger writes into the store of the job


def stopped(act: Callable[[], object], within_s: float = 5.0) -> bool:
    """Return whether a call has ended in time."""
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    thread.join(within_s)
    return not thread.is_alive()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_bad_a_forged_stack_opens_no_pipe_or_device(tmp_path: Path, kind: str) -> None:
    """The side thread of a rank waited for a writer, or read /dev/zero into its memory."""
    path = tmp_path / "pipe.py"
    os.mkfifo(path)
    frame = Frame("/dev/zero" if kind == "device" else str(path), 1, "main", own=True)
    position = Position(0, stack=(frame,))
    assert stopped(lambda: with_blocks(Positions((position,), 1)))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_bad_a_forged_process_id_is_no_path(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "stat")
    assert stopped(lambda: kernel_state(f"../{tmp_path}"))  # type: ignore[arg-type]
    assert kernel_state("self") == ""  # type: ignore[arg-type]
    assert kernel_state(os.getpid()) in ("R", "S")
