"""Files read in forked processes. One that dies takes its file with it and no other, and that file is said."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

Answer = TypeVar("Answer")

_LENGTH = 8
_PIECE = 1 << 16


class _LogWorker(NamedTuple):
    process: int
    #: where the numbers of tasks are written to
    orders: int
    #: where the answers are read from
    answers: int
    #: what came of an answer so far
    received: bytearray


def in_processes(
    work: Callable[[int, Callable[[int], None]], Answer],
    order: Sequence[int],
    *,
    jobs: int,
    lost: Callable[[int, str], Answer],
    tell: Callable[[int], None],
) -> dict[int, Answer]:
    """Do tasks in at most ``jobs`` processes.

    :param work: called in a forked child with the number of a task, and with what it tells its progress by
    :param order: the numbers of the tasks, the longest first
    :param lost: makes the answer of a task whose process ended before it answered, from its number and why
    :param tell: called with what a child told
    """
    done: dict[int, Answer] = {}
    waiting = list(order)[::-1]
    at_work: dict[int, tuple[_LogWorker, int]] = {}

    def start() -> None:
        # a child that kept the pipes of the others open would hide that they have ended
        kept = [descriptor for worker, _ in at_work.values() for descriptor in (worker.orders, worker.answers)]
        give(_start(work, kept))

    def give(worker: _LogWorker) -> None:
        if not waiting:
            at_work.pop(worker.answers, None)
            _leave(worker)
            return
        number = waiting.pop()
        at_work[worker.answers] = (worker, number)
        # one that has ended already is noticed where its answer is read
        with contextlib.suppress(BrokenPipeError):
            os.write(worker.orders, number.to_bytes(_LENGTH, "big"))

    try:
        for _ in range(min(jobs, len(order))):
            start()
        while at_work:
            ready, _, _ = select.select(list(at_work), [], [])
            for descriptor in ready:
                worker, number = at_work[descriptor]
                piece = os.read(descriptor, _PIECE)
                if not piece:
                    del at_work[descriptor]
                    done[number] = lost(number, _end_of(worker))
                    if waiting:
                        start()
                    continue
                worker.received.extend(piece)
                for is_answer, value in _answers(worker.received):
                    if is_answer:
                        done[number] = value
                        give(worker)
                    else:
                        tell(value)
    finally:
        for worker, _ in at_work.values():
            os.kill(worker.process, signal.SIGKILL)
            _leave(worker)
    return done


def _answers(received: bytearray) -> Iterator[tuple[bool, Any]]:
    """Take the messages that came whole."""
    while len(received) >= _LENGTH:
        end = _LENGTH + int.from_bytes(received[:_LENGTH], "big")
        if len(received) < end:
            return
        # written by our own child through a private pipe
        message = pickle.loads(bytes(received[_LENGTH:end]))  # noqa: S301
        del received[:end]
        yield message


def _start(work: Callable[[int, Callable[[int], None]], Any], not_ours: Sequence[int]) -> _LogWorker:
    their_orders, orders = os.pipe()
    answers, their_answers = os.pipe()
    process = os.fork()
    if process:
        os.close(their_orders)
        os.close(their_answers)
        return _LogWorker(process, orders, answers, bytearray())
    status = 1
    try:
        # Ctrl-C reaches the whole group of processes: the parent ends its children, and they have nothing to say
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for descriptor in (orders, answers, *not_ours):
            os.close(descriptor)

        def say(is_answer: bool, value: object) -> None:
            message = pickle.dumps((is_answer, value))
            data = memoryview(len(message).to_bytes(_LENGTH, "big") + message)
            while data:
                data = data[os.write(their_answers, data) :]

        while number := os.read(their_orders, _LENGTH):
            say(True, work(int.from_bytes(number, "big"), lambda amount: say(False, amount)))
        status = 0
    except BaseException:  # noqa: BLE001 - said on standard error, and the process ends
        # a bug of ours: what the parent can say is only that this process ended
        import traceback

        traceback.print_exc()
    finally:
        # nothing of what the parent left behind may run here
        os._exit(status)
    raise AssertionError("the child never returns")


def _leave(worker: _LogWorker) -> None:
    os.close(worker.orders)
    os.close(worker.answers)
    os.waitpid(worker.process, 0)


def _end_of(worker: _LogWorker) -> str:
    """How a process that did not answer ended."""
    os.close(worker.orders)
    os.close(worker.answers)
    _, status = os.waitpid(worker.process, 0)
    code = os.waitstatus_to_exitcode(status)
    return f"the process that read it ended {f'by signal {-code}' if code < 0 else f'with status {code}'}"
