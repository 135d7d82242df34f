"""Files scanned in forked processes. One that dies takes its file with it and no other, and that file is said."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from distcheck.checks.pickles.api import FileReport

_LENGTH = 8
_PIECE = 1 << 16
#: Files that a worker is told of before it asks for more.
_AHEAD = 16


class _ScanWorker(NamedTuple):
    process: int
    #: where the numbers of files are written to
    orders: int
    #: where the answers are read from
    answers: int


class _Task(NamedTuple):
    worker: _ScanWorker
    #: the files that it was told to scan, and has not answered yet
    numbers: deque[int]
    #: what came of an answer so far
    answer: bytearray


def scan_in_processes(
    scan_one: Callable[[str], FileReport],
    paths: Sequence[str],
    *,
    jobs: int,
    lost: Callable[[str, str], FileReport],
    tell: Callable[[int, int], None] | None = None,
) -> list[FileReport]:
    """Scan files in at most ``jobs`` processes.

    :param scan_one: called in a forked child for each path
    :param lost: makes the report on a file whose process ended before it answered, from its path and why
    :param tell: called with the number of files that are done, and of all
    :return: reports in the order of the paths
    """
    done: dict[int, FileReport] = {}
    waiting = list(range(len(paths)))[::-1]
    at_work: dict[int, _Task] = {}

    def order(task: _Task) -> None:
        # a few ahead, so that nobody waits for the next; fewer towards the end, so that all end together
        ahead = min(_AHEAD, 1 + len(waiting) // (4 * jobs))
        numbers = [waiting.pop() for _ in range(min(ahead - len(task.numbers), len(waiting)))]
        task.numbers.extend(numbers)
        # one that has ended already is noticed where its answer is read
        with contextlib.suppress(BrokenPipeError):
            os.write(task.worker.orders, b"".join(number.to_bytes(_LENGTH, "big") for number in numbers))

    def start() -> None:
        # a child that kept the pipes of the others open would hide that they have ended
        kept = [descriptor for task in at_work.values() for descriptor in task.worker[1:]]
        task = _Task(_start(scan_one, paths, kept), deque(), bytearray())
        at_work[task.worker.answers] = task
        order(task)

    try:
        for _ in range(min(jobs, len(paths))):
            start()
        while at_work:
            ready, _, _ = select.select(list(at_work), [], [])
            for descriptor in ready:
                task = at_work[descriptor]
                piece = os.read(descriptor, _PIECE)
                if piece:
                    task.answer.extend(piece)
                    for answer in _answers(task.answer):
                        # written by our own child through a private pipe
                        done[task.numbers.popleft()] = pickle.loads(answer)  # noqa: S301
                    order(task)
                    if not task.numbers:
                        del at_work[descriptor]
                        _leave(task.worker)
                else:
                    del at_work[descriptor]
                    number = task.numbers.popleft()
                    done[number] = lost(paths[number], _end_of(task.worker))
                    waiting.extend(reversed(task.numbers))
                    if waiting:
                        start()
                if tell is not None:
                    tell(len(done), len(paths))
    finally:
        for task in at_work.values():
            os.kill(task.worker.process, signal.SIGKILL)
            _leave(task.worker)
    return [done[number] for number in range(len(paths))]


def _answers(received: bytearray) -> Iterator[bytes]:
    """Take the answers that came whole."""
    while len(received) >= _LENGTH:
        end = _LENGTH + int.from_bytes(received[:_LENGTH], "big")
        if len(received) < end:
            return
        yield bytes(received[_LENGTH:end])
        del received[:end]


def _start(scan_one: Callable[[str], FileReport], paths: Sequence[str], not_ours: Sequence[int]) -> _ScanWorker:
    their_orders, orders = os.pipe()
    answers, their_answers = os.pipe()
    process = os.fork()
    if process:
        os.close(their_orders)
        os.close(their_answers)
        return _ScanWorker(process, orders, answers)
    status = 1
    try:
        # Ctrl-C reaches the whole group of processes: the parent ends its children, and they have nothing to say
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for descriptor in (orders, answers, *not_ours):
            os.close(descriptor)
        while number := os.read(their_orders, _LENGTH):
            answer = pickle.dumps(scan_one(paths[int.from_bytes(number, "big")]))
            data = len(answer).to_bytes(_LENGTH, "big") + answer
            while data:
                data = data[os.write(their_answers, data) :]
        status = 0
    finally:
        # nothing of what the parent left behind may run here
        os._exit(status)
    raise AssertionError("the child never returns")


def _leave(worker: _ScanWorker) -> None:
    os.close(worker.orders)
    os.close(worker.answers)
    os.waitpid(worker.process, 0)


def _end_of(worker: _ScanWorker) -> str:
    """How a process that did not answer ended."""
    os.close(worker.orders)
    os.close(worker.answers)
    _, status = os.waitpid(worker.process, 0)
    code = os.waitstatus_to_exitcode(status)
    return f"its process ended {f'by signal {-code}' if code < 0 else f'with status {code}'}"
