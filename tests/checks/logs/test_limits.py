"""What a host had too little of: what tells look-alikes apart, on timelines made by hand."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from distcheck.checks.logs.limits import (
    disk_had_room,
    files_could_be_opened,
    memory_could_be_locked,
    memory_was_enough,
    shared_memory_was_too_small,
    threads_could_be_started,
    workers_fit_the_cpus,
)
from distcheck.checks.logs.model import Event, LineAuthor, LogSource, Timeline, Traceback, TracebackFrame, WorkerFailure
from distcheck.core.model import Finding, Severity
from distcheck.rules.signatures import Kind
from distcheck.rules.signatures.host import ROWS


def event(signature: str, text: str = "", line: int = 1, *, rank: int | None = None, **values: str) -> Event:
    kind = next((row.kind for row in ROWS if row.name == signature), Kind.FAILURE)
    return Event(signature, kind, LineAuthor(rank=rank), 0, line, None, text or signature, values)


def timeline(*events: Event, workers: Iterable[WorkerFailure] = (), went_on: bool = False) -> Timeline:
    return Timeline((LogSource("train.log", lines=100),), events, workers=tuple(workers), went_on=went_on)


def row(rank: int, exitcode: int, *, first: bool = False, pid: int = 4711, time: float | None = None) -> WorkerFailure:
    return WorkerFailure(rank, rank, "node01", exitcode, time, pid, first)


def codes(findings: Iterable[Finding]) -> list[str]:
    return [finding.code for finding in findings]


def through(path: str) -> Traceback:
    return Traceback((TracebackFrame(path, 57, "f", ""),), "OSError", "")


@pytest.mark.parametrize(
    ("text", "path", "told"),
    [
        ("OSError: [Errno 28] No space left on device: '/scratch/a.pt'", "/workspace/train.py", "DC327"),
        ("OSError: [Errno 28] No space left on device", "/usr/lib/python3.11/multiprocessing/synchronize.py", "DC320"),
        ("OSError: [Errno 28] No space left on device", "/usr/lib/python3.11/multiprocessing/heap.py", "DC320"),
        ("OSError: [Errno 28] No space left on device: '/dev/shm/pymp-x'", "/workspace/train.py", "DC320"),
    ],
)
def test_a_full_disk_is_not_a_full_dev_shm(text: str, path: str, told: str) -> None:
    log = timeline(event("disk-full", text)._replace(traceback=through(path)))
    assert codes([*shared_memory_was_too_small(log), *disk_had_room(log)]) == [told]


def test_one_line_that_fits_both_is_shared_memory() -> None:
    log = timeline(event("shm-full", "Call to posix_fallocate failed"), event("disk-full", "No space left on device"))
    assert codes([*shared_memory_was_too_small(log), *disk_had_room(log)]) == ["DC320"]


def test_a_segment_that_is_refused_for_another_reason() -> None:
    assert not list(shared_memory_was_too_small(timeline(event("shm-full", why="Permission denied"))))
    (found,) = disk_had_room(timeline(event("shm-refused")))
    assert found.code == "DC327" and "/dev/shm" in found.message and "1777" in found.fix.text


def test_a_bus_error_alone_is_mostly_shared_memory() -> None:
    killed = event("bus-error", "Signal 7 (SIGBUS) received by PID 4711", 40)
    (found,) = shared_memory_was_too_small(timeline(killed, workers=[row(2, -7, first=True)]))
    assert found.where.rank == 2
    died = event("exception", "KeyError: 'lr'", 3, rank=1)
    assert not list(shared_memory_was_too_small(timeline(died, killed._replace(who=LineAuthor(rank=2)))))


def test_descriptors() -> None:
    (found,) = files_could_be_opened(timeline(event("too-many-files", "RuntimeError: received 0 items of ancdata")))
    assert "set_sharing_strategy" in found.fix.text
    assert codes(files_could_be_opened(timeline(event("shared-object-not-opened", "unable to open")))) == ["DC321"]
    full = timeline(event("shm-full", "x", why="No space left"), event("shared-object-not-opened", "x"))
    assert not list(files_could_be_opened(full))


def test_locked_memory_tells_its_limit() -> None:
    log = timeline(event("locked-memory-small", bytes="65536"), event("locked-memory", line=2, call="reg_mr"))
    (found,) = memory_could_be_locked(log)
    assert "65,536 bytes" in found.message and "ibv_reg_mr" in found.message


def test_a_locked_memory_limit_is_no_lack_of_memory() -> None:
    log = timeline(event("host-allocation", "NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory"))
    assert not list(memory_was_enough(log))


def test_threads_and_workers() -> None:
    (found,) = threads_could_be_started(timeline(event("thread-limit", threads="64", rank=3)))
    assert "rank 3" in found.message and "64" in found.message
    (slow,) = workers_fit_the_cpus(timeline(event("many-workers", workers="8", most="2")))
    assert slow.severity is Severity.INFO


@pytest.mark.parametrize(
    ("others", "workers", "told"),
    [
        ((), (row(2, -9, first=True),), True),
        ((), (), True),
        # the launcher saw another rank fail first
        ((), (row(0, 1, first=True), row(2, -9)), False),
        # another rank had failed in words of its own
        ((event("exception", "KeyError: 'lr'", 3, rank=1),), (row(2, -9, first=True),), False),
        # what a lost peer looks like is no cause of the kill
        ((event("exception", "RuntimeError: Connection reset by peer", 3, rank=1),), (row(2, -9, first=True),), True),
        # the scheduler ended it
        ((event("time-limit", "*** STEP 88123.0 CANCELLED AT 2026-11-19 DUE TO TIME LIMIT ***", 3),), (), False),
    ],
)
def test_a_kill_is_out_of_memory_only_where_it_came_first(
    others: tuple[Event, ...], workers: tuple[WorkerFailure, ...], told: bool
) -> None:
    killed = event("sigkilled", "Signal 9 (SIGKILL) received by PID 4711", 40, pid="4711")
    assert codes(memory_was_enough(timeline(*others, killed, workers=workers))) == (["DC323"] if told else [])


def test_what_the_launcher_killed_itself_is_no_sign() -> None:
    forced = event("forced-kill", "Unable to shutdown process 4711", 20, pid="4711")
    killed = event("sigkilled", "Signal 9 (SIGKILL) received by PID 4711", 40, pid="4711")
    assert not list(memory_was_enough(timeline(forced, killed)))


def test_the_kernels_word_needs_no_other_sign() -> None:
    died = event("exception", "KeyError: 'lr'", 3, rank=1)
    said = event("oom-killed", "Out of memory: Killed process 4712 (python)", 50, pid="4712", name="python")
    (found,) = memory_was_enough(timeline(died, said, workers=[row(1, 1, first=True), row(2, -9, pid=4712)]))
    assert found.where.rank == 2 and "out of memory" in found.message


def test_slurms_words_lead_to_slurms_option() -> None:
    said = event("oom-killed", "slurmstepd: error: Detected 1 oom_kill event in StepId=88123.0.", count="1")
    (found,) = memory_was_enough(timeline(said))
    assert "--mem" in found.fix.text
    (survived,) = memory_was_enough(timeline(said, went_on=True))
    assert survived.severity is Severity.INFO


def test_a_file_that_could_not_be_written_to_its_end() -> None:
    torn = event("write-failed", "unexpected pos 640 vs 534")
    assert codes(disk_had_room(timeline(torn))) == ["DC327"]
    quota = event("disk-full", "Disk quota exceeded: '/home/a'", line=2, quota="Disk quota exceeded", file="/home/a")
    (found,) = disk_had_room(timeline(torn, quota))
    assert "quota" in found.message and found.where.line == 2


def test_temporary_folders() -> None:
    (found,) = disk_had_room(timeline(event("socket-path", "OSError: AF_UNIX path too long")))
    assert "TMPDIR" in found.fix.text
