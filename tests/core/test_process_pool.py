"""Tasks in several processes: results in order, a process that dies costs one task, no process is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence

import psutil
import pytest

from distcheck.checks.pickles.api import FileReport, failed
from distcheck.core.process_pool import in_processes

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


def report(path: str) -> FileReport:
    return FileReport(path, "pickle", len(path), "safe", f"read by {os.getpid()}")


def scan_in_processes(
    scan_one: Callable[[str], FileReport],
    paths: Sequence[str],
    *,
    jobs: int,
    tell: Callable[[int, int], None] | None = None,
) -> list[FileReport]:
    done = in_processes(
        lambda number, _: scan_one(paths[number]),
        range(len(paths)),
        jobs=jobs,
        lost=lambda number, why: failed(paths[number], why),
        progress=tell and (lambda files, _: tell(files, len(paths))),
        most_ahead=16,
    )
    return [done[number] for number in range(len(paths))]


def test_answers_come_in_the_order_of_the_paths_and_from_other_processes() -> None:
    paths = [f"file{number}" for number in range(50)]
    told: list[tuple[int, int]] = []
    reports = scan_in_processes(report, paths, jobs=3, tell=lambda done, total: told.append((done, total)))
    assert [one.path for one in reports] == paths
    readers = {one.sentence for one in reports}
    assert f"read by {os.getpid()}" not in readers
    assert len(readers) <= 3
    assert told[-1] == (50, 50)


def test_a_process_that_dies_costs_its_file_and_no_other() -> None:
    def scan(path: str) -> FileReport:
        if path.endswith("7"):
            os.kill(os.getpid(), signal.SIGKILL)
        if path.endswith("8"):
            os._exit(3)
        return report(path)

    paths = [f"file{number}" for number in range(20)]
    reports = scan_in_processes(scan, paths, jobs=2)
    assert [one.path for one in reports] == paths
    bad = {one.path: one.sentence for one in reports if one.verdict == "incomplete"}
    assert set(bad) == {"file7", "file17", "file8", "file18"}
    assert "signal 9" in bad["file7"]
    assert "status 3" in bad["file8"]


def test_all_may_die() -> None:
    reports = scan_in_processes(lambda path: os._exit(1), ["a", "b", "c"], jobs=2)
    assert [one.verdict for one in reports] == ["incomplete"] * 3


def test_an_exception_in_a_child_does_not_come_out_of_it() -> None:
    def scan(path: str) -> FileReport:
        raise KeyboardInterrupt

    assert [one.verdict for one in scan_in_processes(scan, ["a", "b"], jobs=2)] == ["incomplete"] * 2


def test_large_answers_come_whole() -> None:
    def scan(path: str) -> FileReport:
        return report(path)._replace(why="x" * 3_000_000)

    reports = scan_in_processes(scan, ["a", "b", "c"], jobs=2)
    assert [len(one.why) for one in reports] == [3_000_000] * 3


def children() -> set[int]:
    """Other tests may have left helpers of their own (a resource tracker); those are not meant."""
    return {child.pid for child in psutil.Process().children()}


def test_no_process_and_no_descriptor_is_left_behind() -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0

    before, others = descriptors(), children()
    scan_in_processes(report, [f"file{number}" for number in range(9)], jobs=4)
    assert descriptors() == before
    assert children() == others


def test_where_the_parent_is_interrupted_the_children_end() -> None:
    def tell(done: int, total: int) -> None:
        raise KeyboardInterrupt

    others = children()
    with pytest.raises(KeyboardInterrupt):
        scan_in_processes(report, ["a", "b", "c", "d"], jobs=2, tell=tell)
    assert children() == others


def test_more_processes_than_select_can_wait_for_are_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    from distcheck.checks.pickles.api import Scanner, policy_of
    from distcheck.cli import pickle_scan
    from distcheck.core import process_pool

    requested: list[int] = []

    def note(work: object, order: range, *, jobs: int, **_: object) -> dict[int, FileReport]:
        requested.append(jobs)
        return {number: report(str(number)) for number in order}

    monkeypatch.setattr(process_pool, "in_processes", note)
    pickle_scan.scan(Scanner(policy_of()), [f"{number}.pkl" for number in range(5000)], jobs=4000)
    assert requested == [128]


def test_progress_of_children_is_added_up() -> None:
    seen: list[tuple[int, int]] = []

    def work(number: int, report_amount: Callable[[int], None]) -> int:
        report_amount(number)
        report_amount(100)
        return -number

    done = in_processes(
        work, [3, 1, 2], jobs=2, lost=lambda number, why: 0, progress=lambda tasks, amount: seen.append((tasks, amount))
    )
    assert done == {1: -1, 2: -2, 3: -3}
    assert sum(amount for _, amount in seen) == 306
    assert seen[-1][0] == 3


_ENDLESS = """\
import os, time
from distcheck.core.process_pool import in_processes
def work(number, _):
    print(os.getpid(), flush=True)
    time.sleep(60)
in_processes(work, range(4), jobs=2, lost=lambda number, why: None)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_processes_end_with_a_parent_that_is_killed_in_the_middle_of_their_tasks(number: int) -> None:
    with subprocess.Popen([sys.executable, "-c", _ENDLESS], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        workers = [psutil.Process(int(parent.stdout.readline())) for _ in range(2)]
        parent.send_signal(number)
        _, running = psutil.wait_procs(workers, timeout=3)
        # a container without an init process keeps what has ended
        assert [one for one in running if one.status() != psutil.STATUS_ZOMBIE] == []
