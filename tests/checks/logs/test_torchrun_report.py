"""The failure reports of torch 1.9 to 2.13, error files, and the one-line reports of other launchers."""

from __future__ import annotations

import pytest

from distcheck.checks.logs.model import LineAuthor, LogSource, WorkerFailure
from distcheck.checks.logs.prefixes import LineHead
from distcheck.checks.logs.torchrun_report import FailureReport, read_error_file, worker_in

NEW = """\
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-22_07:56:47
  host      : node01
  rank      : 8 (local_rank: 0)
  exitcode  : -15 (pid: 7751)  (SIGTERM)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 7751
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-22_07:56:46
  host      : node01
  rank      : 9 (local_rank: 1)
  exitcode  : 1 (pid: 7752)
  error_file: /scratch/logs/attempt_0/1/error.json
  traceback : Traceback (most recent call last):
    File "/workspace/train.py", line 7, in main
      raise ValueError("no labels")
  ValueError: no labels

============================================================
"""
OLD = """\
**************************************************
                train.py FAILED
==================================================
Root Cause:
[0]:
  time: 2026-11-22_07:56:46
  rank: 1 (local_rank: 1)
  exitcode: 1 (pid: 7752)
  error_file: <N/A>
  msg: "Process failed with exitcode 1"
==================================================
Other Failures:
[1]:
  time: 2026-11-22_07:56:47
  rank: 0 (local_rank: 0)
  exitcode: -15 (pid: 7751)
  error_file: <N/A>
  msg: "Process failed with exitcode -15"
**************************************************
"""


def feed(*texts: tuple[LineAuthor, str]) -> list[WorkerFailure]:
    report = FailureReport()
    rows: list[WorkerFailure] = []
    for number, (who, text) in enumerate(texts, 1):
        rows += report.feed(number, LineHead(who, None, text))
    assert not report.open
    return rows


def lines(text: str, who: LineAuthor = LineAuthor()) -> list[tuple[LineAuthor, str]]:
    return [(who, line) for line in text.splitlines()]


def test_the_report_of_today() -> None:
    other, root = feed(*lines(NEW))
    assert (other.rank, other.local_rank, other.exitcode, other.pid, other.first) == (8, 0, -15, 7751, False)
    assert (root.rank, root.local_rank, root.host, root.exitcode, root.first) == (9, 1, "node01", 1, True)
    assert root.message == "ValueError: no labels"
    assert root.time is not None and other.time == root.time + 1


def test_the_report_of_1_9() -> None:
    root, other = feed(*lines(OLD))
    assert (root.rank, root.exitcode, root.first, root.message) == (1, 1, True, "")
    assert (other.rank, other.exitcode, other.first) == (0, -15, False)


def test_reports_of_two_agents_between_each_other() -> None:
    one, two = LineAuthor(task=0), LineAuthor(task=1)
    mixed = [pair for both in zip(lines(NEW, one), lines(NEW.replace("node01", "node02"), two)) for pair in both]  # noqa: B905
    rows = feed(*mixed)
    assert sorted(row.host or "" for row in rows) == ["node01", "node01", "node02", "node02"]


def test_a_report_whose_beginning_is_cut_off() -> None:
    report = FailureReport()
    for number, line in enumerate(NEW.splitlines()[17:21]):
        assert report.feed(number, LineHead(LineAuthor(), None, line)) == []
    (row,) = report.finish()
    assert (row.rank, row.exitcode) == (9, 1)


def test_ordinary_lines_begin_no_report() -> None:
    report = FailureReport()
    for line in ("rank: 3", "time: 12 s", "host: node01", "Root Cause Analysis", "exitcode: 0"):
        assert report.feed(1, LineHead(LineAuthor(), None, line)) == []
        assert not report.open


def test_a_report_that_never_ends_is_given_up() -> None:
    report = FailureReport()
    report.feed(1, LineHead(LineAuthor(), None, "Failures:"))
    for number in range(500):
        report.feed(number, LineHead(LineAuthor(), None, "step"))
    assert not report.open


@pytest.mark.parametrize(
    ("line", "rank", "local_rank", "code"),
    [
        ("failed (exitcode: -9) local_rank: 2 (pid: 4711) of binary: /usr/bin/python3", None, 2, -9),
        ("Child process 4711 (local_rank 1) FAILED (exitcode 1)", None, 1, 1),
        ("torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGKILL", None, 1, -9),
        ("ProcessExitedException: process 0 terminated with exit code 1", None, 0, 1),
        # the command of the last process that the launcher started, whichever failed
        ("['python', '-u', 'x.py', '--local_rank=3', '--a'] exits with return code = -9", None, None, -9),
        ("['python', '-u', 'x.py', '--local_rank=0', '--a'] exits with return code = -9", None, 0, -9),
        ("CalledProcessError: Command '['p', '--local_rank=7']' returned non-zero exit status 1.", None, None, 1),
        ("CalledProcessError: Command '['p', '--local_rank=7']' died with <Signals.SIGSEGV: 11>.", None, None, -11),
        ("-- Process 3 terminated with the following error:", None, 3, None),
        ("ABORT!!! Out of all 4 trainers, the trainer process with rank=[3] was aborted. See", 3, None, None),
        (
            "flux-shell[0]: FATAL: doom: sh: rank 3 on host node02 exited and exit-timeout=30s has expired",
            3,
            None,
            None,
        ),
        ("flux-shell[0]: FATAL: task-exit: sh: task rank 1 on host n1 failed and exit-on-error is set", 1, None, None),
        ("[NID 00214] [c3-0c1s9n2] [Sun Nov 22 08:42:32 2026] PE RANK 5 exit signal Killed", 5, None, -9),
        ("srun: error: node02: task 5: Out Of Memory", 5, None, -9),
        ("srun: error: node02: task 5: Exited with exit code 3", 5, None, 3),
        ("process rank 3 with PID 4711 on node node02 exited on signal 9 (Killed).", 3, None, -9),
        ("Process name: [[29973,1],3]", 3, None, None),
        ("Process name: [prterun-node01-4711@1,3]", 3, None, None),
        ("Process name: 3", 3, None, None),
        ("mpirun has exited due to process rank 1 with PID 0 on", 1, None, None),
        ("prterun has exited due to process rank 2 with PID 4711 on node node02 exiting", 2, None, None),
        ("=   RANK 5 PID 4711 RUNNING AT node02", 5, None, None),
        ("One or more process (first noticed rank 5) terminated with signal 11 (core dumped)", 5, None, -11),
        ("Process 1 exit with status code 137.", 1, None, 137),
        ("node02.hsn: rank 0 died from signal 11 and dumped core", 0, None, -11),
        ("node02.hsn: rank 3 exited with code 1", 3, None, 1),
        ("ERROR:composer.cli.launcher:Rank 2 crashed with exit code -6", 2, None, -6),
        ("Global rank 3 (PID 4711) exited with code 1", 3, None, 1),
        ("MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD", 3, None, None),
        ("MPI_ABORT was invoked on rank 2 in communicator MPI COMMUNICATOR 5 DUP FROM 0", 2, None, None),
        ("Abort(1) on node 3 (rank 3 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 1)", 3, None, None),
        ("application called MPI_Abort(MPI_COMM_WORLD, 1) - process 3", 3, None, None),
        ("DEBUG events Error pod bert-worker-0 container pytorch exitCode: 1 terminated message:", None, None, 1),
        ("DEBUG events Pod: training.bert-worker-0 exited with code 137", None, None, 137),
    ],
)
def test_one_line_for_one_worker(line: str, rank: int | None, local_rank: int | None, code: int | None) -> None:
    row = worker_in(line)
    assert row is not None
    assert (row.rank, row.local_rank, row.exitcode) == (rank, local_rank, code)


@pytest.mark.parametrize(
    "line",
    [
        "node02.hsn: rank 3 exited with code 0",
        "Rank 2 crashed",
        "PE RANK 5 exit signal 0",
        "flux-shell[0]: DEBUG: task-exit: task rank 1 on host node01 exited",
        "flux-job: task(s) exited with exit code 1",
        # which of two was the first is unknown
        "ABORT!!! Out of all 4 trainers, the trainer process with rank=[0, 2] was aborted. Please check its log.",
        "rank 0 died",
        "Process name: 3D viewer",
        "Global rank 3 (PID 4711) exited with code 0",
        "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_SELF",
        "MPI_ABORT was invoked on rank 0 in communicator MPI COMMUNICATOR 5 SPLIT FROM 0",
        "application called MPI_Abort(MPI_COMM_WORLD, 0) - process 3",
        "Abort(1) on node 3 (rank 3 in comm 4711): Fatal error",
        "Pod: training.bert-worker-0 exited with code 0",
        "Error pod bert-worker-0 container pytorch exitCode: 0",
    ],
)
def test_other_lines_are_of_no_worker(line: str) -> None:
    assert worker_in(line) is None


def test_an_error_file() -> None:
    source = LogSource("logs/attempt_1/3/error.json", who=LineAuthor(local_rank=3), attempt=1)
    data = b'{"message": {"message": "ValueError: boom\\nmore", "extraInfo": {"timestamp": "1795334202"}}}'
    (row,) = read_error_file(data, source)
    assert row == WorkerFailure(None, 3, None, None, 1795334202.0, message="ValueError: boom", attempt=1)
    assert read_error_file(b'{"message": "Signal 9"}', source)[0].message == "Signal 9"
    for wrong in (b"", b"[]", b"{}", b'{"message": 3}', b"\xff\xfe{"):
        assert read_error_file(wrong, source) == []
