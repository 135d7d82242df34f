"""Run a reader in its own process, for what may hang where no signal arrives (a driver, the kernel).

The child is forked, so nothing is imported again. A process that already has threads, such as a training process,
starts a fresh Python instead. A child that exceeds its limit is killed and not waited for, because a process that hangs
in the kernel can't die.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from .model import ReaderCrashed, Unavailable
from .registry import Reader

#: Seconds after its reader's limit at which a child ends itself, in case its parent has exited.
_GRACE_S = 2


class Child:
    """A reader that runs in another process."""

    def __init__(self, process: int, pipe: int) -> None:
        self._process = process
        self._pipe = pipe
        self._reaped = False

    def result(self) -> object:
        """Wait for the child and return its fact; raises what the reader raised."""
        chunks = []
        try:
            while chunk := os.read(self._pipe, 1 << 16):
                chunks.append(chunk)
        finally:
            os.close(self._pipe)
        status = 0
        # other code of this process may have reaped the child; its answer is still valid
        with contextlib.suppress(ChildProcessError):
            _, status = os.waitpid(self._process, 0)
        self._reaped = True
        if not chunks:
            code = os.waitstatus_to_exitcode(status)
            raise ReaderCrashed(
                f"the process that read it ended {'by signal ' + str(-code) if code < 0 else f'with status {code}'}"
            )
        value = pickle.loads(b"".join(chunks))  # noqa: S301 - written by our own child through a private pipe
        if isinstance(value, BaseException):
            raise value
        return value

    def leave(self) -> None:
        """Kill the child if it still runs, without waiting for it."""
        if self._reaped:
            return
        try:
            os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, os.WNOHANG)
        except (ProcessLookupError, ChildProcessError):
            return


class Inline:
    """A reader without a process of its own: it runs in the calling thread, and its limit still holds."""

    def __init__(self, result: Callable[[], object]) -> None:
        self.result = result

    def leave(self) -> None:
        return


def _not_started(error: Exception) -> object:
    """Raise Unavailable: the limit of processes or files is reached, which has its own rule."""
    raise Unavailable(f"no process could be started to read it: {error}")


def may_fork() -> bool:
    """Return whether a forked child can't inherit a held lock: there is one thread, and torch is not imported."""
    return threading.active_count() == 1 and "torch" not in sys.modules


def start(reader: Reader, values: list[Any]) -> Any:
    """Start a reader with its facts in another process."""
    try:
        return _start(reader, values)
    except (OSError, ValueError, TypeError) as error:
        return Inline(partial(_not_started, error))


def _start(reader: Reader, values: list[Any]) -> Any:
    if not hasattr(os, "fork"):
        return Inline(partial(reader.function, *values))
    if not may_fork():
        return _spawn(reader, values)
    read_end, write_end = os.pipe()
    process = os.fork()
    if process:
        os.close(write_end)
        return Child(process, read_end)
    _child(reader.function, reader.limit_for(values), values, write_end)
    raise AssertionError("the child never returns")


def _child(function: Callable[..., Any], limit_s: float, values: list[Any], pipe: int) -> None:
    """Read and answer in the forked child, and exit without running the parent's exit handlers."""
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(int(limit_s) + _GRACE_S)
        _answer(function, values, pipe)
        status = 0
    finally:
        os._exit(status)


def _answer(function: Callable[..., Any], values: list[Any], pipe: int) -> None:
    answer: object
    try:
        answer = function(*values)
    except Unavailable as unavailable:
        answer = unavailable
    except Exception as error:  # noqa: BLE001 - crosses the pipe: the parent reports it as DC901
        answer = RuntimeError(f"{type(error).__name__}: {error}")
    data = pickle.dumps(answer)
    while data:
        data = data[os.write(pipe, data) :]


def _spawn(reader: Reader, values: list[Any]) -> Child:
    """Start a fresh Python: forking a process with threads may copy a lock that is never released."""
    read_end, write_end = os.pipe()
    request_read, request_write = os.pipe()
    os.set_inheritable(write_end, True)
    # it gets the module path of this process, which may hold distcheck.pyz; -I ignores PYTHONPATH
    program = (
        "import sys; sys.path[:] = sys.argv[2:]; "
        "from distcheck.core.isolation import answer_request as answer; answer(int(sys.argv[1]))"
    )
    flags = ["-I"] * sys.flags.isolated + ["-S"] * sys.flags.no_site
    process = os.posix_spawn(
        sys.executable,
        [sys.executable, *flags, "-c", program, str(write_end), *filter(None, sys.path)],
        dict(os.environ),
        file_actions=[(os.POSIX_SPAWN_DUP2, request_read, 0)],
    )
    os.close(write_end)
    os.close(request_read)
    function = reader.function
    # an environment can be longer than a command line may be
    request = pickle.dumps((function.__module__, function.__name__, reader.limit_for(values), values))
    # a process that exited at once has closed its pipe; result() reports how it exited
    with contextlib.suppress(BrokenPipeError), os.fdopen(request_write, "wb") as file:
        file.write(request)
    return Child(process, read_end)


def answer_request(pipe: int) -> None:
    """Answer in the fresh Python; never returns."""
    from importlib import import_module

    module, name, limit_s, values = pickle.loads(sys.stdin.buffer.read())  # noqa: S301 - from our own parent
    _child(getattr(import_module(module), name), limit_s, values, pipe)
