"""Run a command and end the process with its status. Handles closed streams, Ctrl-C, closed pipes and full disks."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import StringIO
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType


def _nowhere(mode: str) -> IO[str]:
    """Return a null stream for the life of the process; a minimal container may lack /dev/null."""
    try:
        return open(os.devnull, mode, encoding="utf-8")
    except OSError:
        return StringIO()


def end_with(run: Callable[[], Any], leave: Callable[[int], None]) -> None:
    """Run a command and end the process with its status.

    :param run: returns the exit status; a value that is not a number counts as 0
    :param leave: ends the process
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # the parent process closed it
            setattr(sys, name, _nowhere(mode))
    for stream in (sys.stdout, sys.stderr):
        # characters that the terminal's encoding lacks are escaped
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        status = run()
        if not sys.stdout.closed:  # the language server closes it when the editor ends
            sys.stdout.flush()
    except KeyboardInterrupt:
        with suppress(OSError):
            sys.stderr.write("Interrupted.\n")
        status = 130
    except BrokenPipeError:
        # the reader of the output has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        status = 0
    except OSError as error:
        # on a full disk, only the status shows that the output is missing
        with suppress(OSError):
            sys.stderr.write(f"distcheck: the output can't be written: {error.strerror}\n")
        status = 2
    leave(status if isinstance(status, int) else 0)


@contextmanager
def signal_handlers(handlers: Mapping[str, Callable[[int, FrameType | None], None]]) -> Iterator[None]:
    """Handle these signals (``SIGTERM``), and restore the old handlers at the end.

    A signal that this process ignores stays ignored (nohup), and so does one that the platform lacks. Outside of the
    main thread nothing changes, because only the main thread may set handlers.
    """
    import signal

    before = {}
    for name, handler in handlers.items():
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            with suppress(ValueError):
                before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def leave(status: int) -> None:
    """Exit at once: a reader that hangs in a daemon thread must not delay the interpreter's shutdown."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            if not stream.closed:
                stream.flush()
    os._exit(status)
