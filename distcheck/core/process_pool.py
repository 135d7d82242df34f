"""Tasks in forked processes. If a process dies, only the task that it was working on is lost."""

from __future__ import annotations

import _thread
import contextlib
import os
import pickle
import select
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

Result = TypeVar("Result")

#: Bytes of a task's number, and of a message's length.
_LENGTH = 8
_READ_BYTES = 1 << 16


class _Worker(NamedTuple):
    pid: int
    #: the pipe to which the numbers of tasks are written
    tasks: int
    #: the pipe from which messages are read
    messages: int
    #: the tasks that it has received and not completed, in order
    pending: deque[int]
    #: the start of a message that has not arrived completely
    received: bytearray


def in_processes(
    work: Callable[[int, Callable[[int], None]], Result],
    order: Sequence[int],
    *,
    jobs: int,
    lost: Callable[[int, str], Result],
    progress: Callable[[int, int], None] | None = None,
    most_ahead: int = 1,
) -> dict[int, Result]:
    """Return the result of each task, by its number. The tasks run in at most ``jobs`` processes.

    :param work: runs in a forked child. It gets the number of a task, and a function that reports an amount of progress
    :param order: the numbers of the tasks
    :param lost: makes the result of a task whose process ended, from its number and the reason
    :param progress: called with the number of tasks that are done, and the amount that children reported since the last
        call
    :param most_ahead: tasks that a worker gets before it has completed them: more than 1 where tasks are short
    """
    done: dict[int, Result] = {}
    waiting = list(order)[::-1]
    workers: dict[int, _Worker] = {}

    def assign(worker: _Worker) -> None:
        # fewer tasks ahead towards the end, so that all workers finish at the same time
        ahead = min(most_ahead, 1 + len(waiting) // (4 * jobs))
        numbers = [waiting.pop() for _ in range(min(ahead - len(worker.pending), len(waiting)))]
        worker.pending.extend(numbers)
        # a worker that has ended already is noticed where its messages are read
        with contextlib.suppress(BrokenPipeError):
            os.write(worker.tasks, b"".join(number.to_bytes(_LENGTH, "big") for number in numbers))

    def start() -> None:
        # a child with open pipes of other workers would hide that those workers have ended
        inherited = [pipe for worker in workers.values() for pipe in (worker.tasks, worker.messages)]
        worker = _start(work, inherited)
        workers[worker.messages] = worker
        assign(worker)

    try:
        for _ in range(min(jobs, len(order))):
            start()
        while workers:
            ready, _, _ = select.select(list(workers), [], [])
            for pipe in ready:
                worker = workers[pipe]
                data = os.read(pipe, _READ_BYTES)
                amount = 0
                if data:
                    worker.received.extend(data)
                    for is_result, value in _messages(worker.received):
                        if is_result:
                            done[worker.pending.popleft()] = value
                        else:
                            amount += value
                    assign(worker)
                    if not worker.pending:
                        del workers[pipe]
                        _close(worker)
                else:
                    del workers[pipe]
                    ended = f"the process that read it ended {_close(worker)}"
                    number = worker.pending.popleft()
                    done[number] = lost(number, ended)
                    waiting.extend(reversed(worker.pending))
                    if waiting:
                        start()
                if progress is not None:
                    progress(len(done), amount)
    finally:
        for worker in workers.values():
            os.kill(worker.pid, signal.SIGKILL)
            _close(worker)
    return done


def _messages(received: bytearray) -> Iterator[tuple[bool, Any]]:
    """Yield the complete messages and remove them: whether it is a result, and the value."""
    while len(received) >= _LENGTH:
        end = _LENGTH + int.from_bytes(received[:_LENGTH], "big")
        if len(received) < end:
            return
        # written by our own child through a private pipe
        message = pickle.loads(bytes(received[_LENGTH:end]))  # noqa: S301
        del received[:end]
        yield message


def _start(work: Callable[[int, Callable[[int], None]], object], inherited: Sequence[int]) -> _Worker:
    their_tasks, tasks = os.pipe()
    messages, their_messages = os.pipe()
    # held back until the child is ready for them: it would run the handlers of its parent
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        pid = os.fork()
    except OSError:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        raise
    if pid:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(their_tasks)
        os.close(their_messages)
        return _Worker(pid, tasks, messages, deque(), bytearray())
    status = 1
    try:
        # Ctrl-C reaches the whole process group. The parent ends its children, so they ignore it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for pipe in (tasks, messages, *inherited):
            os.close(pipe)
        _thread.start_new_thread(_end_with_parent, (their_tasks,))

        def send(is_result: bool, value: object) -> None:
            message = pickle.dumps((is_result, value))
            data = memoryview(len(message).to_bytes(_LENGTH, "big") + message)
            while data:
                data = data[os.write(their_messages, data) :]

        while number := os.read(their_tasks, _LENGTH):
            send(True, work(int.from_bytes(number, "big"), lambda amount: send(False, amount)))
        status = 0
    except BaseException:  # noqa: BLE001 - printed, and the process ends
        # a bug of ours: the parent can report only that this process ended
        import traceback

        traceback.print_exc()
    finally:
        # no exit handler that the parent registered may run here
        os._exit(status)
    raise AssertionError("the child never returns")


def _end_with_parent(tasks: int) -> None:
    """End this process when its parent does, even in the middle of a task: only the parent has the other end."""
    poll = select.poll()
    poll.register(tasks, 0)
    poll.poll()
    os._exit(1)


def _close(worker: _Worker) -> str:
    """Close the pipes, wait for the process, and return how it ended."""
    os.close(worker.tasks)
    os.close(worker.messages)
    _, status = os.waitpid(worker.pid, 0)
    code = os.waitstatus_to_exitcode(status)
    return f"by signal {-code}" if code < 0 else f"with status {code}"
