"""A progress line on the terminal, rewritten in place and erased at the end. It is not part of a report.

It is shown only on a terminal that can rewrite a line, so that logs stay clean.
"""

from __future__ import annotations

import os
import time
from typing import TextIO

#: Seconds between two updates: a person can't read more than 10 per second.
INTERVAL_S = 0.1
#: Back to the first column, and erase up to the end of the line (ECMA-48, EL).
_ERASE = "\r\x1b[K"
#: Columns if the terminal does not report them.
_COLUMNS = 80


class Progress:
    """``measure · all_reduce float32 4 MiB · 12/88 · 3.2 s`` on a stream, normally standard error.

    It shows nothing if the stream is not a terminal, if TERM is ``dumb``, or if NO_COLOR is set (no-color.org: no
    escape sequences). The seconds count from the creation of this object. A closed stream never raises an error.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._began = time.monotonic()
        self._next = 0.0
        self._shown = False
        self._live = _rewritable(stream)
        self._separator = " · " if _encodes(stream, "·…") else " - "

    @property
    def live(self) -> bool:
        """Return whether anything is shown."""
        return self._live

    def show(self, phase: str, step_text: str = "", done: int = 0, total: int = 0) -> None:
        """Show the current step. Calls within INTERVAL_S of the last one are ignored.

        :param done: finished steps of ``total``; not shown if ``total`` is 0
        """
        if not self._live:
            return
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + INTERVAL_S
        parts = [phase]
        if step_text and step_text != phase:
            parts.append(step_text)
        if total:
            parts.append(f"{done}/{total}")
        seconds = f"{now - self._began:.1f} s"
        line = self._separator.join([*parts, seconds])
        room = self._columns() - 1
        if len(line) > room:
            # the seconds stay: while they change, the run is not hung
            ellipsis = "…" if "·" in self._separator else "."
            keep = room - len(self._separator) - len(seconds) - 1
            line = self._separator.join([self._separator.join(parts)[: max(keep, 0)] + ellipsis, seconds])[:room]
        self._write(_ERASE + "".join(char if char.isprintable() else "?" for char in line))
        self._shown = True

    def clear(self) -> None:
        """Erase the line. The next call of :meth:`show` writes at once."""
        if self._live and self._shown:
            self._write(_ERASE)
        self._shown = False
        self._next = 0.0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self._live = False

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or _COLUMNS
        except (OSError, ValueError):
            return _COLUMNS


def _rewritable(stream: TextIO) -> bool:
    try:
        terminal = stream.isatty()
    except ValueError:  # it is closed
        return False
    return terminal and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")


def _encodes(stream: TextIO, text: str) -> bool:
    try:
        text.encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
