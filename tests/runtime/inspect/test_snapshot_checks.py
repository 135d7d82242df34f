"""What a snapshot means: hand-made ones, the healthy and the hanging side by side."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from distcheck.cli.stuck import PROBE_MODULES
from distcheck.core.checker import Checker
from distcheck.core.model import Finding, Severity, Unavailable
from distcheck.core.world import World
from distcheck.runtime.coordination.model import CollectiveCall, Frame, Position, Positions
from distcheck.runtime.inspect.jobs import Job, RankProcess
from distcheck.runtime.inspect.processes import RankCandidate, ThreadSample
from distcheck.runtime.inspect.snapshot import Snapshot, _Observed, _source, compose, merge
from distcheck.runtime.inspect.snapshot_checks import not_checked, stands_still
from distcheck.runtime.inspect.stacks import ThreadStack

TRAIN = Frame("train.py", 88, "train", True)
EVAL = Frame("eval.py", 41, "validate", True)
REDUCE = Frame("torch/distributed/distributed_c10d.py", 3252, "all_reduce")


def waits(rank: int, operation: str = "all_reduce", **more: object) -> Position:
    return Position(
        rank, "n1", 100 + rank, "waiting", CollectiveCall(0, operation, place="train.py:88"), stack=(REDUCE, TRAIN)
    )._replace(**more)  # type: ignore[arg-type]


def away(rank: int, detail: str = "asleep", **more: object) -> Position:
    return Position(rank, "n1", 100 + rank, "computing", stack=(EVAL,), detail=detail)._replace(**more)  # type: ignore[arg-type]


def snapshot(
    *ranks: Position, size: int | None = None, interval_s: float = 2.0, busy: tuple[int, ...] = (), **more: object
) -> Snapshot:
    world = len(ranks) if size is None else size
    known = {item.rank for item in ranks}
    moving = {item.rank for item in ranks if item.detail == "moves on"}
    return Snapshot(
        "job 1", Positions(ranks, world), ("n1",), interval_s, tuple(sorted(known - moving)), busy,
        tuple(rank for rank in range(world) if rank not in known),
    )._replace(**more)  # type: ignore[arg-type]  # fmt: skip


PLAN = Checker(modules=PROBE_MODULES, plug_ins=False).plan(Snapshot, command="stuck", closed=True)


def found(seen: Snapshot) -> tuple[Finding, ...]:
    return PLAN.run(seen).findings


def only(seen: Snapshot) -> Finding:
    (finding,) = found(seen)
    return finding


@pytest.mark.parametrize(
    "seen",
    [
        snapshot(away(0), away(1, "moves on")),
        snapshot(away(0, "moves on"), away(1, "uses the processor")),
        # a slow step: one still works, and gets on
        snapshot(waits(0), away(1, "moves on"), busy=(1,)),
        snapshot(),
    ],
)
def test_good_nobody_waits_or_somebody_moves(seen: Snapshot) -> None:
    assert found(seen) == ()
    assert not stands_still(seen)


def test_nobody_waits_and_nobody_moves_is_not_taken_for_sound() -> None:
    seen = snapshot(away(0), away(1))
    assert found(seen) == ()
    assert stands_still(seen)


def test_bad_a_rank_is_elsewhere() -> None:
    seen = snapshot(waits(0), away(1), waits(2))
    finding = only(seen)
    assert (finding.code, finding.severity) == ("DC701", Severity.WARNING)
    assert finding.message == (
        "rank 1 is in validate() at eval.py:41 and sleeps; ranks 0,2 wait in all_reduce at train.py:88; "
        "no progress for 2 s"
    )
    assert (finding.where.path, finding.where.line, finding.where.rank) == ("eval.py", 41, 1)
    assert finding.fix.command == "distcheck stuck --hang-timeout 30"
    assert stands_still(seen)


def test_bad_a_rank_that_sleeps_elsewhere_for_long_hangs() -> None:
    finding = only(snapshot(waits(0), away(1), interval_s=30.0))
    assert (finding.code, finding.severity, finding.fix.where) == ("DC701", Severity.ERROR, "code")


def test_good_a_long_call_into_a_library_is_no_hang() -> None:
    finding = only(snapshot(waits(0), away(1, "uses the processor"), interval_s=30.0, busy=(1,)))
    assert (finding.code, finding.severity) == ("DC701", Severity.WARNING)


@pytest.mark.parametrize(
    ("rank", "helped", "told"),
    [
        # it unpacks an archive in a child, or downloads: the others wait, and it comes
        (away(1), (1,), "waits for its own threads or children, which work"),
        (away(1, "polls"), (), "asks for something again and again, at one line"),
    ],
)
def test_good_a_rank_whose_children_work_or_that_polls_is_no_hang(
    rank: Position, helped: tuple[int, ...], told: str
) -> None:
    finding = only(snapshot(waits(0), rank, interval_s=30.0, helped=helped))
    assert (finding.code, finding.severity) == ("DC701", Severity.WARNING)
    assert told in finding.message


def test_good_who_gets_on_elsewhere_for_long_is_only_named() -> None:
    finding = only(snapshot(waits(0), away(1, "moves on"), waits(2), interval_s=60.0))
    assert (finding.code, finding.severity) == ("DC701", Severity.INFO)
    assert finding.message == (
        "ranks 0,2 wait in all_reduce at train.py:88, for 60 s by now; rank 1 is in validate() at eval.py:41 and goes "
        "on there"
    )


def test_bad_rank_zero_works_while_the_others_stand_at_a_barrier() -> None:
    assert only(snapshot(away(0), waits(1, "barrier"), waits(2, "barrier"))).code == "DC726"
    assert only(snapshot(waits(0, "barrier"), away(1), waits(2, "barrier"))).code == "DC701"
    assert only(snapshot(away(0), waits(1, "all_reduce"))).code == "DC701"


def test_bad_a_rank_has_ended() -> None:
    finding = only(snapshot(waits(0), Position(1, "n1", state="left"), waits(2)))
    assert (finding.code, finding.severity) == ("DC702", Severity.ERROR)
    assert "rank 1 has ended, and ranks 0,2 wait in all_reduce at train.py:88 for it" in finding.message


def test_good_all_have_ended() -> None:
    assert found(snapshot(Position(0, state="left"), Position(1, state="left"))) == ()


def test_bad_a_rank_is_stopped() -> None:
    stopped = Position(1, "n1", 101, "stopped", detail="by a signal")
    finding = only(snapshot(waits(0), stopped))
    assert (finding.code, finding.severity, finding.fix.command) == ("DC511", Severity.ERROR, "kill -CONT 101")
    traced = only(snapshot(waits(0), stopped._replace(detail="by process 7, which traces it")))
    assert traced.fix.command is None


def test_bad_a_rank_is_blocked_in_the_kernel() -> None:
    blocked = away(1, "blocked in the kernel")
    assert only(snapshot(waits(0), blocked)).severity is Severity.INFO
    finding = only(snapshot(waits(0), blocked, interval_s=30.0))
    assert (finding.code, finding.severity) == ("DC511", Severity.ERROR)
    assert "in validate() at eval.py:41" in finding.message


def test_bad_all_wait_in_different_collectives() -> None:
    finding = only(snapshot(waits(0, "barrier"), waits(1), waits(2)))
    assert (finding.code, finding.severity) == ("DC517", Severity.ERROR)
    assert "rank 0 in barrier at train.py:88, ranks 1-2 in all_reduce at train.py:88" in finding.message


@pytest.mark.parametrize(
    "seen",
    [
        # other ranks, whose collectives are not known
        snapshot(waits(0, "barrier"), waits(1), size=4),
        # a pipeline: one sends, the other receives
        snapshot(waits(0, "send"), waits(1, "recv")),
        # what a wait waits for is not known
        snapshot(waits(0, "Work.wait"), waits(1)),
        snapshot(waits(0, "backward"), waits(1)),
    ],
)
def test_good_different_calls_that_may_be_right(seen: Snapshot) -> None:
    finding = only(seen)
    assert (finding.code, finding.severity) == ("DC517", Severity.INFO)


def test_good_a_stack_that_is_not_known_could_be_the_way_to_the_collective() -> None:
    assert found(snapshot(waits(0, "barrier"), waits(1), Position(2, state="silent"), unseen={2: "no"})) == ()


def test_all_have_come_and_nothing_moves() -> None:
    assert only(snapshot(waits(0), waits(1))).severity is Severity.INFO
    finding = only(snapshot(waits(0), waits(1), interval_s=25.0))
    assert (finding.code, finding.severity, finding.fix.command) == (
        "DC511",
        Severity.ERROR,
        "distcheck collective --pairs",
    )


def test_good_a_loop_that_asks_the_gpu_for_its_loss_stands_there_in_every_step() -> None:
    finding = only(snapshot(waits(0, "cuda.synchronize"), waits(1, "cuda.synchronize"), interval_s=25.0))
    assert (finding.code, finding.severity) == ("DC511", Severity.INFO)


def test_all_here_wait_and_the_others_are_elsewhere() -> None:
    seen = snapshot(waits(0), waits(1), size=4, interval_s=25.0)
    finding = only(seen)
    assert (finding.code, finding.severity) == ("DC511", Severity.INFO)
    assert "2 ranks on other hosts were not inspected" in finding.message
    assert [item.what for item in not_checked(seen)] == ["ranks 2-3"]


def test_two_processes_of_one_rank() -> None:
    finding = only(snapshot(away(0, "moves on"), surplus={0: (9,)}))
    assert (finding.code, finding.where.rank) == ("DC502", 0)
    assert finding.fix.command is None


def test_what_was_not_seen_is_said_once_a_reason() -> None:
    seen = snapshot(away(0), away(1), unseen={0: "no py-spy", 1: "no py-spy"}, unrecorded={1: "no pipe"})
    assert [tuple(item) for item in not_checked(seen)] == [
        ("the stacks of ranks 0-1", "no py-spy"),
        ("the flight recorder of rank 1", "no pipe"),
    ]


def test_thousands_of_ranks_take_no_longer_text_and_no_long_time() -> None:
    ranks = [waits(rank) for rank in range(16384) if rank % 2]
    ranks += [away(rank) for rank in range(0, 16384, 2)]
    seen = snapshot(*sorted(ranks), interval_s=30.0)
    start = time.perf_counter()
    finding = only(seen)
    assert len(finding.message) < 400
    assert len(str(finding.where)) < 400
    assert time.perf_counter() - start < 5


# two samples


def seen_as(
    frames: tuple[Frame, ...] | None, state: str = "S", cpu_s: float = 1.0, sleeps: int = 5, tracer: int = 0
) -> _Observed:
    threads = Unavailable("no py-spy") if frames is None else (ThreadStack("MainThread", frames, True),)
    return _Observed(ThreadSample(state, cpu_s, sleeps, tracer), threads)


def composed(one: _Observed, other: _Observed, **more: object) -> Snapshot:
    job = Job("job 1", (RankProcess(0, RankCandidate(100, 1)),), 2, ended=(1,))
    return compose(job, {0: one}, {0: other}, host="n1", interval_s=2.0, **more)  # type: ignore[arg-type]


IN_REDUCE = (REDUCE, TRAIN)
BACKWARD = (Frame("torch/autograd/graph.py", 979, "_engine_run_backward"), TRAIN)


@pytest.mark.parametrize(
    "one, other, state, detail",
    [
        (seen_as(IN_REDUCE), seen_as(IN_REDUCE), "waiting", ""),
        # NCCL's wait spins
        (seen_as(IN_REDUCE), seen_as(IN_REDUCE, "R", 3.0), "waiting", ""),
        # the same line in another step
        (seen_as(IN_REDUCE), seen_as(IN_REDUCE, sleeps=500), "computing", "moves on"),
        (seen_as(IN_REDUCE), seen_as((TRAIN,)), "computing", "moves on"),
        (seen_as((EVAL,)), seen_as((EVAL,)), "computing", "asleep"),
        (seen_as((EVAL,)), seen_as((EVAL,), "R", 2.9), "computing", "uses the processor"),
        (seen_as((EVAL,), "D"), seen_as((EVAL,), "D"), "computing", "blocked in the kernel"),
        # a gradient is computed, or waited for
        (seen_as(BACKWARD), seen_as(BACKWARD, cpu_s=2.8), "computing", "uses the processor"),
        (seen_as(BACKWARD), seen_as(BACKWARD), "waiting", ""),
        (seen_as((EVAL,)), seen_as((EVAL,), "T"), "stopped", "by a signal"),
        (seen_as((EVAL,)), seen_as((EVAL,), "t", tracer=7), "stopped", "by process 7, which traces it"),
        (seen_as((EVAL,)), seen_as(None, "Z"), "left", "it has ended, and it was not queried"),
        (seen_as((EVAL,)), seen_as(None, ""), "left", "it has ended"),
        (seen_as(None), seen_as(None), "silent", "no stack"),
        (seen_as(()), seen_as(()), "computing", "its main thread runs no Python"),
    ],
)
def test_two_looks_tell_a_state(one: _Observed, other: _Observed, state: str, detail: str) -> None:
    seen = composed(one, other)
    position, gone = seen.positions.ranks
    assert (position.state, position.detail, position.host) == (state, detail, "n1")
    assert (gone.rank, gone.state) == (1, "left")
    assert seen.elsewhere == ()


def test_a_handle_that_is_waited_for_shows_in_the_line_of_source() -> None:
    def line_of(item: object, frame: Frame) -> str:
        return "    work.wait()" if frame == TRAIN else ""

    position = composed(seen_as((TRAIN,)), seen_as((TRAIN,)), line_of=line_of).positions.ranks[0]
    assert position.call == CollectiveCall(0, "Work.wait", place="train.py:88", function="train")
    assert composed(seen_as((EVAL,)), seen_as((EVAL,)), line_of=line_of).positions.ranks[0].call is None


def test_a_source_that_is_no_ordinary_file_is_not_read(tmp_path: Path) -> None:
    """The name of a source is what the program gave to ``compile``."""
    item = RankProcess(0, RankCandidate(0, 1, folder=str(tmp_path)))
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "zeros.py").symlink_to("/dev/zero")
    (tmp_path / "own.py").write_text("work.wait()")
    for name, line in (("pipe.py", ""), ("zeros.py", ""), ("own.py", "work.wait()")):
        assert _source(World({}), item, Frame(name, 1, "train")) == line


def test_a_result_of_the_gpu_that_does_not_come() -> None:
    def operation(cuda: bool) -> str | None:
        job = Job("job 1", (RankProcess(0, RankCandidate(100, 1, cuda=cuda)),), 1)
        busy = seen_as((TRAIN,), "R", 3.0)
        seen = compose(
            job, {0: seen_as((TRAIN,))}, {0: busy}, interval_s=2.0, line_of=lambda item, frame: "x = loss.item()"
        )
        call = seen.positions.ranks[0].call
        return None if call is None else f"{seen.positions.ranks[0].state} {call.operation}"

    assert operation(True) == "waiting cuda.synchronize"
    assert operation(False) is None


def test_who_stands_at_one_line_in_all_looks_and_does_nothing_polls() -> None:
    one, woken = seen_as((EVAL,)), seen_as((EVAL,), sleeps=500)
    other_line = seen_as((TRAIN,))

    def detail(*between: _Observed, last: _Observed = woken) -> str:
        return composed(one, last, between=[{0: look} for look in between]).positions.ranks[0].detail

    assert detail(one, one) == "polls"
    assert detail(one, other_line) == detail() == "moves on"
    assert detail(one, one, last=seen_as((EVAL,), "R", 2.9, sleeps=500)) == "moves on"
    # a step of a sound loop looks so too
    waiting = composed(seen_as(IN_REDUCE), seen_as(IN_REDUCE, sleeps=500), between=[{0: seen_as(IN_REDUCE)}] * 2)
    assert (waiting.positions.ranks[0].state, waiting.positions.ranks[0].detail) == ("computing", "moves on")


def test_children_that_work_are_seen() -> None:
    first, last = (_Observed(ThreadSample("S", 1.0, 5, 0, around), seen_as((EVAL,)).threads) for around in (3.0, 4.9))
    assert composed(first, last).helped == (0,)
    assert composed(first, first).helped == ()


def test_hosts_of_one_job_become_one() -> None:
    def host(name: str, *ranks: Position) -> Snapshot:
        return snapshot(*(item._replace(host=name) for item in ranks), size=4)._replace(hosts=(name,))

    first, second = host("n1", waits(0), waits(1)), host("n2", away(2), waits(3))
    (seen,) = merge([first, second])
    assert (seen.elsewhere, seen.hosts, seen.still) == ((), ("n1", "n2"), (0, 1, 2, 3))
    finding = only(seen)
    assert (finding.code, finding.where.host, finding.where.rank) == ("DC701", "n2", 2)
    other = first._replace(job="job 2")
    assert len(merge([first, other, second])) == 2


def test_a_snapshot_survives_json() -> None:
    from distcheck.core.facts_file import from_plain
    from distcheck.core.model import to_plain

    seen = snapshot(waits(0), away(1), surplus={0: (9,)}, unseen={1: "no"})
    assert from_plain(Snapshot, to_plain(seen)) == seen
    mapping: Mapping[int, str] = from_plain(Snapshot, to_plain(seen)).unseen
    assert mapping == {1: "no"}


@pytest.mark.parametrize(("interval_s", "severity"), [(2.0, Severity.INFO), (30.0, Severity.ERROR)])
def test_bad_all_wait_in_one_operation_at_different_lines(interval_s: float, severity: Severity) -> None:
    """DC511: two groups in another order look like this; the way between the ranks is not to blame."""
    other = waits(1)
    assert other.call is not None
    finding = only(
        snapshot(waits(0), other._replace(call=other.call._replace(place="train.py:90")), interval_s=interval_s)
    )
    assert (finding.code, finding.severity) == ("DC511", severity)
    assert finding.message.startswith(
        "all 2 ranks wait, at different lines: rank 0 waits in all_reduce at train.py:88; rank 1 waits in all_reduce "
        "at train.py:90;"
    )
    assert "distcheck collective" not in (finding.fix.command or "")
