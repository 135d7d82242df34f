"""Runs one function in a Python of its own, with a deadline: for what can't be stopped from within.

The other Python looks for modules where this one does, is given the arguments and gives the value back through files
without a name, and leads a session of its own, so that whatever it has started ends with it. What it prints is kept.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import click

from .exit_status import signal_handlers

if TYPE_CHECKING:
    import subprocess

#: Seconds between two looks, and those that a killed process has to be gone.
_LOOK_S, _GONE_WITHIN_S = 0.1, 2.0
#: Seconds that the process lives beyond its limit, should nobody be left to end it.
_GRACE_S = 5
#: What is told of the text of a process that broke, in characters.
_LONGEST_END = 300
_PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from distcheck.cli.subprocess_call import answer; answer()"


class Overdue(Exception):  # noqa: N818 - a state, not an error
    """The limit was over; the process was ended."""


class Broken(Exception):  # noqa: N818 - a state of the other process
    """The process ended without an answer, or the function raised; the message says how."""


class Answer(NamedTuple):
    """What the function returned, and what was printed meanwhile."""

    value: Any
    text: str


def call(
    function: Callable[..., Any], arguments: Sequence[Any], limit_s: float, progress: Callable[[], None]
) -> Answer:
    """Call a function of a module of ours, and wait for its value.

    :param arguments: and what the function returns: values that can be pickled
    :param tell: called now and then while it runs
    :raises Overdue: it took longer than the limit
    :raises Broken: it raised, or its process died
    :raises click.UsageError: it raised that
    """
    import subprocess

    until = time.monotonic() + limit_s
    with _nameless() as request, _nameless() as answered, _nameless() as printed:
        request.write(pickle.dumps((function.__module__, function.__name__, tuple(arguments), limit_s)))
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
    """The other side; never returns."""
    own = os.dup(1)
    # whatever is printed, by C code too, must not stand in the answer
    os.dup2(2, 1)
    # whoever reads on finds the end: a bare root has no /dev/null
    module, name, arguments, limit_s = pickle.loads(sys.stdin.buffer.read())  # noqa: S301 - from our own parent
    if hasattr(signal, "alarm"):
        signal.alarm(int(limit_s) + _GRACE_S)
    kind, value = "value", None
    try:
        value = getattr(importlib.import_module(module), name)(*arguments)
    except click.UsageError as error:
        kind, value = "misused", error.format_message()
    except Broken as broken:
        kind, value = "raised", str(broken)
    except Exception as error:  # noqa: BLE001 - crosses to the parent, which says it
        import traceback

        traceback.print_exc()
        kind, value = "raised", f"{type(error).__name__}: {error}"
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    data = pickle.dumps((kind, value))
    while data:
        data = data[os.write(own, data) :]
    os._exit(0)


def _nameless() -> IO[bytes]:
    """A file without a name, in memory where that can be had: a read-only root has no folder for temporary files."""
    if hasattr(os, "memfd_create"):
        with contextlib.suppress(OSError):
            return os.fdopen(os.memfd_create("distcheck"), "w+b")
    try:
        return tempfile.TemporaryFile()
    except FileNotFoundError:
        raise Broken("there is no folder for temporary files; name one in TMPDIR") from None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it and what it has started, where it still runs."""
    import subprocess

    if process.poll() is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    # one that hangs in the kernel is left: nobody waits for a process that can't die
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
    """The last line that it printed."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"; it had printed: {lines[-1][-_LONGEST_END:]}" if lines else ""


def _exit(number: int, _frame: object) -> None:
    """Handle a signal that ends this process: the other process ends first."""
    raise SystemExit(128 + number)
