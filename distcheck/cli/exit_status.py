"""How a process of ours runs and ends: streams that may be closed, Ctrl-C, a closed pipe, a full disk, the status."""

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
    """A stream that nobody reads, for as long as the process lives; a bare root may lack the device."""
    try:
        return open(os.devnull, mode, encoding="utf-8")
    except OSError:
        return StringIO()


def end_with(run: Callable[[], Any], leave: Callable[[int], None]) -> None:
    """Run a command and end the process with its status.

    :param run: returns the exit status; anything that is no number counts as 0
    :param leave: ends the process
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # whoever started this has closed it
            setattr(sys, name, _nowhere(mode))
    for stream in (sys.stdout, sys.stderr):
        # a report may hold characters that the terminal's encoding lacks; they are escaped, never fatal
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        status = run()
        sys.stdout.flush()
    except KeyboardInterrupt:
        with suppress(OSError):
            sys.stderr.write("Interrupted.\n")
        status = 130
    except BrokenPipeError:
        # whoever read the output has left; what it wanted to see it has seen
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        status = 0
    except OSError as error:
        # where nothing can be written any more (a full disk), the status still says that nothing was said
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
    """End at once: a reader that hangs in a daemon thread must not hold the interpreter's shutdown."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(status)
