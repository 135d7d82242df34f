"""Run a function in its own Python process with a deadline, for code that can't be stopped from inside.

The other Python has the module path of this one. Arguments and result are passed through unnamed files. It leads its
own session, so that its child processes end with it. Its output is kept.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import click

from .exit_status import signal_handlers

if TYPE_CHECKING:
    import subprocess

#: Seconds between two checks, and seconds to wait for a killed process.
_LOOK_S, _GONE_WITHIN_S = 0.1, 2.0
#: Seconds after its limit at which the process ends itself, in case this one has exited.
_GRACE_S = 5
#: Characters of the output of a failed process that a message shows.
_LONGEST_END = 300
_PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from distcheck.cli.subprocess_call import answer; answer()"


class Overdue(Exception):  # noqa: N818 - a state, not an error
    """The process exceeded its limit and was ended."""


class Broken(Exception):  # noqa: N818 - a state of the other process
    """The process exited without an answer, or the function raised; the message has the details."""


class Answer(NamedTuple):
    """The return value of the function, and its output."""

    value: Any
    text: str


def call(
    function: Callable[..., Any], arguments: Sequence[Any], limit_s: float, progress: Callable[[], None]
) -> Answer:
    """Call a function of a module of ours, and wait for its value.

    :param arguments: and what the function returns: values that can be pickled
    :param show: called now and then while it runs
    :raises Overdue: it took longer than the limit
    :raises Broken: it raised, or its process died
    :raises click.UsageError: it raised that
    """
    import subprocess

    until = time.monotonic() + limit_s
    with _nameless() as request, _nameless() as answered, _nameless() as printed:
        request.write(pickle.dumps((function.__module__, function.__name__, tuple(arguments), limit_s, os.getpid())))
        request.seek(0)
        flags = ["-I"] * sys.flags.isolated + ["-S"] * sys.flags.no_site
        with signal_handlers({"SIGTERM": _exit, "SIGHUP": _exit}):
            try:
                process = subprocess.Popen(
                    [sys.executable, *flags, "-c", _PROGRAM, *filter(None, sys.path)],
                    stdin=request,
                    stdout=answered,
                    stderr=printed,
                    start_new_session=True,
                )
            except OSError as error:
                raise Broken(f"no process could be started: {error.strerror}") from None
            try:
                while process.poll() is None:
                    left = until - time.monotonic()
                    if left <= 0:
                        raise Overdue
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(min(left, _LOOK_S))
                    progress()
            finally:
                _end(process)
        answered.seek(0)
        printed.seek(0)
        data, text = answered.read(), printed.read().decode("utf-8", "replace")
    if not data:
        raise Broken(_how(process.returncode) + _end_of(text))
    kind, value = pickle.loads(data)  # noqa: S301 - written by our own child to a file of ours
    if kind == "misused":
        raise click.UsageError(value)
    if kind == "raised":
        raise Broken(value)
    return Answer(value, text)


def answer() -> None:
    """Answer in the other process; never returns."""
    own = os.dup(1)
    # output, also of C code, must not be part of the answer
    os.dup2(2, 1)
    # standard input is read to its end, so that later readers find it empty
    module, name, arguments, limit_s, parent = pickle.loads(sys.stdin.buffer.read())  # noqa: S301 - from our own parent
    if hasattr(signal, "alarm"):
        signal.alarm(int(limit_s) + _GRACE_S)
        threading.Thread(target=_end_with_parent, args=(parent,), daemon=True).start()
    kind, value = "value", None
    try:
        value = getattr(importlib.import_module(module), name)(*arguments)
    except click.UsageError as error:
        kind, value = "misused", error.format_message()
    except Broken as broken:
        kind, value = "raised", str(broken)
    except Exception as error:  # noqa: BLE001 - the parent reports it
        import traceback

        traceback.print_exc()
        kind, value = "raised", f"{type(error).__name__}: {error}"
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    data = pickle.dumps((kind, value))
    while data:
        data = data[os.write(own, data) :]
    os._exit(0)


def _end_with_parent(parent: int) -> None:
    """End this process and its children when a signal has killed its parent."""
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    os.killpg(os.getpid(), signal.SIGKILL)


def _nameless() -> IO[bytes]:
    """Return an unnamed file, in memory if possible: a read-only root has no folder for temporary files."""
    if hasattr(os, "memfd_create"):
        with contextlib.suppress(OSError):
            return os.fdopen(os.memfd_create("distcheck"), "w+b")
    try:
        return tempfile.TemporaryFile()
    except FileNotFoundError:
        raise Broken("there is no folder for temporary files; name one in TMPDIR") from None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and its children, if it still runs."""
    import subprocess

    if process.poll() is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    # do not wait long: a process that hangs in the kernel can't die
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_GONE_WITHIN_S)


def _how(status: int) -> str:
    if status >= 0:
        return f"its process ended with status {status}"
    try:
        return f"its process was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"its process was ended by signal {-status}"


def _end_of(text: str) -> str:
    """Return the last line of its output, for a message."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"; it had printed: {lines[-1][-_LONGEST_END:]}" if lines else ""


def _exit(number: int, _frame: object) -> None:
    """Handle a signal that ends this process: the other process ends first."""
    raise SystemExit(128 + number)
