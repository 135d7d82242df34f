"""What was read of several files, joined: ranks, restarts, order, size, and whether the job lives on."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distcheck.checks.logs.model import (
    Dump,
    Event,
    LineAuthor,
    LogReading,
    LogSource,
    RankStream,
    Traceback,
    TracebackFrame,
    WorkerFailure,
)
from distcheck.checks.logs.timeline import join
from distcheck.rules.signatures import Kind


def event(
    line: int,
    who: LineAuthor = LineAuthor(),
    *,
    time: float | None = None,
    text: str = "boom",
    kind: Kind = Kind.FAILURE,
) -> Event:
    return Event("something", kind, who, 0, line, time, text)


def record(line: int, text: str, who: LineAuthor = LineAuthor(), time: float | None = None) -> Event:
    return event(line, who, text=text, kind=Kind.RECORD, time=time)


def reading(
    *events: Event, path: str = "train.log", who: LineAuthor = LineAuthor(), attempt: int | None = None, **more: object
) -> LogReading:
    return LogReading(LogSource(path, who=who, attempt=attempt), events, **more)  # type: ignore[arg-type]


def ranks(*readings: LogReading) -> list[int | None]:
    return [event.who.rank for event in join(readings).events if event.kind is not Kind.RECORD]


def test_sources_are_numbered() -> None:
    voice = RankStream(LineAuthor(rank=1), 0, 1, 9)
    worker = WorkerFailure(1, 1, "node01", 1, None, line=7)
    of = join(
        [
            reading(event(3)),
            reading(event(5), path="b.log", rank_streams=(voice,), workers=(worker,), dumps=(Dump(0, 0),), dropped=4),
        ]
    )
    assert [item.source for item in of.events] == [0, 1]
    assert (of.rank_streams[0].source, of.workers[0].source, of.dumps[0].source, of.dropped) == (1, 1, 1, 4)
    assert of.path(of.events[1]) == "b.log"


def test_nothing_gives_an_empty_timeline() -> None:
    of = join([])
    assert (of.events, of.world_size, of.attempts, of.went_on) == ((), None, 1, False)


def test_a_process_of_nccl_has_the_rank_of_its_communicator_of_all_ranks() -> None:
    who = LineAuthor(host="node01", pid=4711)
    assert ranks(
        reading(
            record(1, "NCCL INFO comm 0x55d0c0 rank 11 nranks 16 cudaDev 3 busId 3b000 - Init COMPLETE", who),
            record(2, "NCCL INFO comm 0x55d0c1 rank 1 nranks 2 cudaDev 3 busId 3b000 - Init COMPLETE", who),
            event(3, who),
            event(4, LineAuthor(host="node02", pid=4711)),
        )
    ) == [11, None]


def test_the_table_of_the_launcher_tells_local_ranks_and_processes_apart() -> None:
    workers = (WorkerFailure(11, 3, "node02.example.org", 1, None, pid=4711),)
    assert ranks(
        reading(
            event(1, LineAuthor(host="node02", pid=4711)),
            event(2, LineAuthor(host="node02", local_rank=1)),
            event(3, LineAuthor(host="node01", local_rank=1)),
            workers=workers,
        )
    ) == [11, 9, None]


def test_one_line_with_both_numbers_speaks_for_its_task() -> None:
    assert ranks(
        reading(
            event(1, LineAuthor(task=1, local_rank=3, rank=11)),
            event(2, LineAuthor(task=1, local_rank=0)),
            event(3, LineAuthor(task=0, local_rank=2)),
        )
    ) == [11, 8, None]


@pytest.mark.parametrize(
    ("world", "expected"), [("", 3), ("world_size=4", 3), ("world size 8", 3), ("world_size=16", None)]
)
def test_local_ranks_are_ranks_on_one_host(world: str, expected: int | None) -> None:
    assert ranks(reading(record(1, world), event(2, LineAuthor(local_rank=3)))) == [expected]


def test_local_ranks_of_several_hosts_stay_local() -> None:
    who = LineAuthor(local_rank=3)
    assert ranks(
        reading(event(1), path="logs/node01/run_x/attempt_0/3/stderr.log", who=who),
        reading(event(1), path="logs/node02/run_x/attempt_0/3/stderr.log", who=who),
    ) == [None, None]


def test_a_task_is_a_rank_unless_torchrun_runs_in_it() -> None:
    assert ranks(reading(event(1, LineAuthor(task=3)))) == [3]
    assert ranks(reading(event(1), path="job-12-3.out", who=LineAuthor(task=3))) == [3]
    assert ranks(reading(event(1, LineAuthor(task=3)), event(2, LineAuthor(task=0, local_rank=1)))) == [None, None]
    table = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"
    assert ranks(reading(event(1, LineAuthor(task=3)), event(2, LineAuthor(task=0), text=table))) == [None, None]


MASTER = 'msg="PyTorchJob=bert, ReplicaType=Master expected=1, running=1, succeeded=0, failed=0, Replicas=1"'


def master() -> Event:
    return record(1, MASTER)._replace(signature="master-pod", values={"job": "bert"})


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([master()], 3),
        ([record(1, "hello", LineAuthor(host="bert-master-0"))], 3),
        ([], None),
        # of another job
        ([record(1, "hello", LineAuthor(host="gpt-master-0"))], None),
        # several ranks in a pod
        ([master(), record(1, "hello", LineAuthor(host="bert-worker-0", local_rank=1))], None),
        ([master(), record(1, "hello", LineAuthor(host="bert-worker-0", rank=9))], None),
        ([master(), record(1, "hello", LineAuthor(host="bert-worker-0", rank=1))], 3),
        ([master(), event(9, text="torch.distributed.elastic.multiprocessing.errors.ChildFailedError:")], None),
    ],
)
def test_a_pod_of_a_job_with_a_master_is_a_rank_unless_it_has_several(
    others: list[Event], expected: int | None
) -> None:
    joined = join([reading(*others, event(3, LineAuthor(host="bert-worker-2"), text="ValueError: boom"))])
    assert [one.who.rank for one in joined.events if one.text == "ValueError: boom"] == [expected]


def test_the_operator_reports_the_pod_that_failed() -> None:
    ended = WorkerFailure(None, None, "bert-worker-0", 1, None, line=3)
    assert [worker.rank for worker in join([reading(master(), workers=(ended,))]).workers] == [1]
    assert [worker.rank for worker in join([reading(event(1), workers=(ended,))]).workers] == [None]


def test_a_process_prints_its_own_rank() -> None:
    def stated(line: int, pid: int, rank: int, text: str = "| distributed init (rank {}): env://") -> Event:
        return record(line, text.format(rank), LineAuthor(pid=pid))._replace(values={"rank": str(rank)})

    boom = event(9, LineAuthor(pid=4712))
    assert ranks(reading(stated(1, 4711, 0), stated(2, 4712, 1), boom)) == [1]
    # two processes print the same rank, or one prints two
    assert ranks(reading(stated(1, 4711, 1), stated(2, 4712, 1), boom)) == [None]
    assert ranks(reading(stated(1, 4712, 0), stated(2, 4712, 1), boom)) == [None]
    # of another process
    checked_in = "NCCL WARN Bootstrap Root : rank {} of 4 ranks has already checked in"
    assert ranks(reading(stated(1, 4712, 1, checked_in), stated(2, 4713, 2), boom)) == [None]


def test_a_file_says_who_wrote_lines_without_a_prefix() -> None:
    assert ranks(reading(event(1), event(2, LineAuthor(rank=5)), path="rank_3.log", who=LineAuthor(rank=3))) == [3, 5]


def test_a_dead_process_keeps_its_rank_in_the_file_of_another_one() -> None:
    lost = event(9)._replace(signature="worker-lost", values={"pid": "4711"})
    listed = event(2, LineAuthor(rank=1, pid=4711))
    timeline = join([reading(listed, lost, path="rank_0.log", who=LineAuthor(rank=0))])
    assert [one.number("peer") for one in timeline.of("worker-lost")] == [1]


def test_restarts_part_the_events_of_a_file() -> None:
    left = "[default] Worker group FAILED. {}/3 attempts left; will restart worker group"
    of = join(
        [
            reading(
                event(1),
                record(5, left.format(3)),
                record(6, left.format(3)),
                event(7),
                record(9, left.format(2)),
                event(10),
            )
        ]
    )
    assert [item.attempt for item in of.events] == [0, 0, 1, 1, 1, 2]
    assert of.attempts == 3


def test_a_launcher_that_goes_on_after_a_failure_has_restarted() -> None:
    failed = "failed (exitcode: 1) local_rank: 2 (pid: 17065) of binary: /usr/bin/python"
    agent = LineAuthor(pid=4711)
    events = [event(1), record(5, failed, agent), event(7), record(9, failed, agent), event(10)]
    assert [item.attempt for item in join([reading(*events)]).events] == [0, 0, 1, 1, 1]
    others = [event(1), record(5, failed, agent), event(7), record(9, failed, LineAuthor(pid=4712)), event(10)]
    assert join([reading(*others)]).attempts == 1


def test_restarts_part_files_by_folder_and_by_time() -> None:
    left = "3/3 attempts left; will restart worker group"
    of = join(
        [
            reading(record(5, left, time=100.0), path="agent.log"),
            reading(event(1, time=50.0), event(2, time=150.0), path="rank_0.log"),
            reading(event(1), path="attempt_1/0/stderr.log", attempt=1),
        ]
    )
    assert {(item.source, item.line): item.attempt for item in of.events} == {
        (0, 5): 0,
        (1, 1): 0,
        (1, 2): 1,
        (2, 1): 1,
    }


def test_files_are_in_order_of_time() -> None:
    of = join([reading(event(1, time=30.0), event(2)), reading(event(1, time=20.0), event(2, time=40.0))])
    assert [(item.source, item.line) for item in of.events] == [(1, 1), (0, 1), (0, 2), (1, 2)]


def test_a_file_whose_clocks_disagree_keeps_its_order() -> None:
    of = join([reading(event(1, time=500.0), event(2, time=20.0), event(3, time=501.0))])
    assert [item.line for item in of.events] == [1, 2, 3]
    close = join([reading(event(1, time=500.0), event(2, time=499.5))])
    assert [item.line for item in close.events] == [2, 1]


def test_a_file_without_times_has_that_of_its_rank_s_end() -> None:
    of = join(
        [
            reading(event(1, time=10.0), event(2, time=30.0), path="rank_0.log", who=LineAuthor(rank=0)),
            reading(
                event(1),
                path="rank_1.log",
                who=LineAuthor(rank=1),
                workers=(WorkerFailure(1, 1, None, 1, 20.0, line=3),),
            ),
        ]
    )
    assert [item.who.rank for item in of.events] == [0, 1, 0]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("WORLD_SIZE=16", 16),
        ("rank 3: world size 16, local_world_size=8", 16),
        ("comm 0x1 rank 3 nranks 32 cudaDev 3", 32),
        ("Timed out after 61 seconds waiting for clients. 1/2 clients joined.", 2),
        ("global_world_sizes=[8, 8, 8, 8]", 8),
        ("Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/8", 8),
        ("All distributed processes registered. Starting with 4 processes", 4),
        ("Added key: store_based_barrier_key:1 to store for rank: 0 (world_size=8)", 8),
        ("tensor parallel world size: 4", None),
        ("local_world_size=8", None),
        ("group_world_size=2", None),
    ],
)
def test_the_size_of_the_job(text: str, size: int | None) -> None:
    of = join([reading(record(1, text))])
    assert (of.world_size, of.world_size_known) == (size, size is not None)


def test_without_a_word_of_it_the_size_is_at_least_the_highest_rank() -> None:
    of = join([reading(event(1, LineAuthor(rank=6)))])
    assert (of.world_size, of.world_size_known) == (7, False)


def test_voices_of_one_rank_are_one() -> None:
    rank_streams = (
        RankStream(LineAuthor(rank=3), 0, 2, 9, 10.0, "last"),
        RankStream(LineAuthor(host="node01", pid=4711), 0, 1, 5, None, "NCCL INFO Init COMPLETE"),
        RankStream(LineAuthor(), 0, 1, 3),
    )
    comm = record(5, "comm 0x1 rank 3 nranks 4", LineAuthor(host="node01", pid=4711))
    of = join([reading(comm, rank_streams=rank_streams)])
    assert of.rank_streams == (
        RankStream(LineAuthor(rank=3, host="node01", pid=4711), 0, 1, 9, 10.0, "last"),
        RankStream(LineAuthor(), 0, 1, 3),
    )
    assert of.ranks == (3,)
    assert of.silent_ranks == (0, 1, 2)


def test_a_row_and_an_error_file_of_one_process_are_one() -> None:
    row = WorkerFailure(3, 3, "node01", 1, 105.0, pid=4711, first=True, line=40)
    file = WorkerFailure(None, 3, None, None, 100.0, message="ValueError: boom")
    of = join(
        [
            reading(workers=(row,)),
            reading(path="attempt_0/3/error.json", who=LineAuthor(local_rank=3), attempt=0, workers=(file,)),
        ]
    )
    assert of.workers == (row._replace(time=100.0, message="ValueError: boom"),)


def test_rows_of_one_process_are_one_by_its_number() -> None:
    row = WorkerFailure(11, 3, "node02", None, 105.0, pid=4711, first=True, line=40)
    line = WorkerFailure(None, None, None, -9, 104.0, pid=4711, line=30)
    elsewhere = WorkerFailure(None, 2, "node01", 1, 104.0, pid=4711, line=31)
    of = join([reading(workers=(line, elsewhere, row))])
    assert of.workers == (row._replace(exitcode=-9, time=104.0, line=30), elsewhere)


def tail(*texts: str, who: LineAuthor = LineAuthor(), start: int = 10) -> tuple[tuple[int, LineAuthor, str], ...]:
    return tuple((start + number, who, text) for number, text in enumerate(texts))


STEPS = [f"step {number} loss 0.31" for number in range(6)]
CRASH = Traceback((TracebackFrame("train.py", 1, "main"),), "RuntimeError", "boom")


@pytest.mark.parametrize(
    ("bad", "end", "expected"),
    [
        (event(5, kind=Kind.LOST), tail("step 9 loss 0.31"), True),
        (event(5, kind=Kind.LOST), tail("Saved checkpoint to out/model.pt"), True),
        (event(5, kind=Kind.LOST), tail("Training completed in 3 h"), True),
        (event(5, kind=Kind.LOST), tail(" 45%|####     | 45/100 [00:12<00:15,  3.6it/s]"), True),
        (event(5, kind=Kind.LOST), tail("Exiting"), False),
        (event(5, kind=Kind.LOST), (), False),
        (event(50, kind=Kind.LOST), tail(*STEPS), False),
        (event(5, kind=Kind.LOST), tail('  File "/workspace/train.py", line 33, in step'), False),
        (event(5, LineAuthor(rank=3), kind=Kind.LOST), tail("step 9 loss 0.31", who=LineAuthor(rank=0)), False),
        (event(5, LineAuthor(rank=3), kind=Kind.LOST), tail(*STEPS, who=LineAuthor(rank=0)), True),
        (event(5)._replace(traceback=CRASH), tail("step 9 loss 0.31"), False),
        (event(50, kind=Kind.NOTICE), tail("step 9 loss 0.31"), True),
    ],
)
def test_a_job_that_lives_on(bad: Event, end: tuple[tuple[int, LineAuthor, str], ...], expected: bool) -> None:
    assert join([reading(bad, tail=end)]).went_on is expected


def test_a_job_lives_on_in_another_file() -> None:
    bad = reading(event(5, LineAuthor(rank=1), time=10.0, kind=Kind.LOST), path="rank_1.log")
    for last, expected in ((99.0, True), (9.0, False), (None, False)):
        rank_streams = (RankStream(LineAuthor(rank=0), 0, 1, 20, last),)
        assert join([bad, reading(path="rank_0.log", tail=tail(*STEPS), rank_streams=rank_streams)]).went_on is expected


numbers = st.one_of(st.none(), st.integers(0, 5))
whos = st.builds(LineAuthor, numbers, numbers, st.sampled_from([None, "a", "b.c", "10.0.0.1"]), numbers, numbers)
times = st.one_of(st.none(), st.floats(0, 1e9))
texts = st.one_of(
    st.text(max_size=8),
    st.sampled_from(["1/3 attempts left; will restart worker group", "comm 0x1 rank 3 nranks 4", "world size 4"]),
)
readings = st.lists(
    st.builds(
        LogReading,
        st.builds(LogSource, st.sampled_from(["a.log", "attempt_0/1/b.log"]), who=whos, attempt=numbers),
        st.lists(
            st.builds(Event, st.just("x"), st.sampled_from(Kind), whos, st.just(0), st.integers(1, 9), times, texts),
            max_size=5,
        ).map(tuple),
        st.lists(st.builds(RankStream, whos, st.just(0), st.integers(1, 4), st.integers(4, 9), times), max_size=2).map(
            tuple
        ),
        st.lists(
            st.builds(WorkerFailure, numbers, numbers, st.sampled_from([None, "a"]), numbers, times, numbers),
            max_size=2,
        ).map(tuple),
    ),
    max_size=3,
)


@settings(max_examples=100, deadline=None)
@given(readings)
@pytest.mark.slow
def test_nothing_is_lost_and_nothing_raises(parts: list[LogReading]) -> None:
    of = join(parts)
    assert len(of.events) == sum(len(part.events) for part in parts)
    assert sorted((item.source, item.line, item.text) for item in of.events) == sorted(
        (number, item.line, item.text) for number, part in enumerate(parts) for item in part.events
    )
    assert [item.attempt for item in of.events] == sorted(item.attempt for item in of.events)
    known = [item.who.rank for part in parts for item in part.events if item.who.rank is not None]
    assert set(known) <= {item.who.rank for item in of.events}


@pytest.mark.slow
def test_a_large_job_takes_no_time_worth_telling() -> None:
    count = 16_384
    rank_streams = tuple(RankStream(LineAuthor(rank=rank), 0, rank + 1, rank + 1) for rank in range(count))
    events = tuple(event(number + 1, LineAuthor(rank=number % count), time=float(number)) for number in range(100_000))
    begin = time.process_time()
    of = join([reading(*events, rank_streams=rank_streams)])
    # a hundred times what is seen: only a square of the number of ranks would be slower
    assert time.process_time() - begin < 60
    assert len(of.ranks) == count


def test_a_download_that_was_cut_lost_no_peer() -> None:
    def lost(*paths: str) -> Event:
        frames = tuple(TracebackFrame(path, 3, "f") for path in paths)
        return event(4, kind=Kind.LOST)._replace(traceback=Traceback(frames, "ConnectionError", "reset by peer"))

    library = "/opt/conda/lib/python3.11/site-packages/urllib3/response.py"
    torch = "/opt/conda/lib/python3.11/site-packages/torch/distributed/rendezvous.py"
    cases = {(library,): Kind.FAILURE, ("train.py",): Kind.LOST, (torch, library): Kind.LOST}
    for paths, kind in cases.items():
        assert join([reading(lost(*paths))]).events[0].kind is kind, paths


def test_the_name_of_one_file_alone_is_no_host() -> None:
    one = reading(event(1), path="node7-run.log", who=LineAuthor(host="node7-run"))
    assert join([one]).events[0].who.host is None
    other = reading(event(1), path="node8-run.log", who=LineAuthor(host="node8-run"))
    assert [each.who.host for each in join([one, other]).events] == ["node7-run", "node8-run"]


def test_the_same_words_said_again_at_the_end_are_not_outlived_by_what_stands_between() -> None:
    again = event(5, kind=Kind.LOST)._replace(repeated=1, last_line=50)
    assert join([reading(again, tail=tail(*STEPS))]).went_on is False
    assert join([reading(again._replace(last_line=7), tail=tail(*STEPS))]).went_on is True


@pytest.mark.parametrize(
    ("text", "rank"),
    [
        ("  what():  [Rank 3] Watchdog caught collective operation timeout", 3),
        ("what():  [PG ID 0 PG GUID 0(default_pg) Rank 3] Process group watchdog thread terminated", 3),
        ("what():  [PG 0 (default_pg) Rank 3] Process group watchdog thread terminated", 3),
        # the number within another group
        ("what():  [PG ID 2 PG GUID 9 Rank 3] Process group watchdog thread terminated", None),
        ("what():  no answer from [Rank 3]", None),
    ],
)
def test_an_exception_of_cpp_names_its_rank(text: str, rank: int | None) -> None:
    assert ranks(reading(event(1, text=text))) == [rank]
