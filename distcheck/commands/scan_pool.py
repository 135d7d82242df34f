"""Files scanned in forked processes. One that dies takes its file with it and no other, and that file is said."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..pickling_api import FileReport

_LENGTH = 8
_PIECE = 1 << 16


class _Worker(NamedTuple):
    process: int
    #: where the number of the next file is written to
    orders: int
    #: where the answer is read from
    answers: int


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
    at_work: dict[int, tuple[_Worker, int, bytearray]] = {}

    def order(worker: _Worker) -> None:
        if waiting:
            number = waiting.pop()
            at_work[worker.answers] = (worker, number, bytearray())
            # one that has ended already is noticed where its answer is read
            with contextlib.suppress(BrokenPipeError):
                os.write(worker.orders, number.to_bytes(_LENGTH, "big"))
        else:
            _leave(worker)

    def start() -> _Worker:
        # a child that kept the pipes of the others open would hide that they have ended
        return _start(scan_one, paths, [kept for worker, _, _ in at_work.values() for kept in worker[1:]])

    try:
        for _ in range(jobs):
            order(start())
        while at_work:
            ready, _, _ = select.select(list(at_work), [], [])
            for descriptor in ready:
                worker, number, answer = at_work[descriptor]
                piece = os.read(descriptor, _PIECE)
                answer += piece
                if piece and not _is_whole(answer):
                    continue
                del at_work[descriptor]
                if piece:
                    # written by our own child through a private pipe
                    done[number] = pickle.loads(bytes(answer[_LENGTH:]))  # noqa: S301
                else:
                    done[number] = lost(paths[number], _end_of(worker))
                if piece:
                    order(worker)
                elif waiting:
                    order(start())
                if tell is not None:
                    tell(len(done), len(paths))
    finally:
        for worker, _, _ in at_work.values():
            os.kill(worker.process, signal.SIGKILL)
            _leave(worker)
    return [done[number] for number in range(len(paths))]


def _is_whole(answer: bytearray) -> bool:
    return len(answer) >= _LENGTH and len(answer) == _LENGTH + int.from_bytes(answer[:_LENGTH], "big")


def _start(scan_one: Callable[[str], FileReport], paths: Sequence[str], not_ours: Sequence[int]) -> _Worker:
    their_orders, orders = os.pipe()
    answers, their_answers = os.pipe()
    process = os.fork()
    if process:
        os.close(their_orders)
        os.close(their_answers)
        return _Worker(process, orders, answers)
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


def _leave(worker: _Worker) -> None:
    os.close(worker.orders)
    os.close(worker.answers)
    os.waitpid(worker.process, 0)


def _end_of(worker: _Worker) -> str:
    """How a process that did not answer ended."""
    os.close(worker.orders)
    os.close(worker.answers)
    _, status = os.waitpid(worker.process, 0)
    code = os.waitstatus_to_exitcode(status)
    return f"its process ended {f'by signal {-code}' if code < 0 else f'with status {code}'}"
