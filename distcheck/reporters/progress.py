"""One line on the terminal that says what is going on, rewritten in place and gone at the end; no part of a report.

On anything but a terminal that can rewrite a line it is silent, so that logs stay clean.
"""

from __future__ import annotations

import os
import time
from typing import TextIO

#: Seconds between two rewritings: 10 a second is as fast as a reader can follow, and costs nothing.
INTERVAL_S = 0.1
#: Back to the first column, and erase up to the end of the line (ECMA-48, EL).
_ERASE = "\r\x1b[K"
#: Columns where the terminal does not tell.
_COLUMNS = 80


class Progress:
    """``measure · all_reduce float32 4 MiB · 12/88 · 3.2 s`` on a stream, normally standard error.

    Silent where the stream is no terminal, where TERM is ``dumb`` or where NO_COLOR is set (no-color.org: whoever sets
    it wants no escape sequences). The seconds are those since this object was made. It never raises for a stream that
    has gone away: the work that it tells of is worth more.
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
        """Whether anything is shown at all."""
        return self._live

    def show(self, phase: str, step_text: str = "", done: int = 0, total: int = 0) -> None:
        """Say where the run is; calls that come too fast are left out, save the first one.

        :param done: steps that are done, of ``total``; left out where total is 0
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
            # the seconds stay: that they move is what tells a run from a hang
            ellipsis = "…" if "·" in self._separator else "."
            keep = room - len(self._separator) - len(seconds) - 1
            line = self._separator.join([self._separator.join(parts)[: max(keep, 0)] + ellipsis, seconds])[:room]
        self._write(_ERASE + "".join(char if char.isprintable() else "?" for char in line))
        self._shown = True

    def clear(self) -> None:
        """Erase the line; the next call of :meth:`show` writes at once."""
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
