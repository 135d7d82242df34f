"""The output of the ranks: shown while they run, and read again at the end. The launcher makes the files."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .processes import AGENT, RehearsedProcess

#: Bytes of one stream that are kept for the end; its last ones.
_MOST = 4 << 20


class _Stream:
    """One file that grows."""

    def __init__(self, path: str, name: str) -> None:
        self.path = path
        self.name = name
        self._at = 0
        self._rest = b""

    def lines(self, *, last: bool) -> list[bytes]:
        """Return the lines since the last call; with ``last`` also an incomplete one."""
        with open(self.path, "rb") as file:
            file.seek(self._at)
            new = file.read()
        self._at += len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        if last and self._rest:
            lines, self._rest = [*lines, self._rest], b""
        return lines


class PrefixedOutput:
    """Prints what the ranks print, line by line, with the rank in front.

    :param what: what the processes are: ``rank``, or ``node`` where one starts the ranks of each
    :param show: takes a line
    """

    def __init__(self, started: Iterable[RehearsedProcess], what: str, show: Callable[[str], None]) -> None:
        self._show = show
        self._streams = [
            _Stream(path, f"[{what} {one.number}]")
            for one in started
            if one.number != AGENT
            for path in (one.stdout, one.stderr)
        ]

    def look(self, *, last: bool = False) -> None:
        """Print the lines since the last call."""
        for stream in self._streams:
            for line in stream.lines(last=last):
                self._show(f"{stream.name} {_plain(line)}")


def _plain(line: bytes) -> str:
    """A line as a terminal would show it at its end: a progress bar rewrites its own."""
    text = line.decode("utf-8", "replace").rstrip("\r").rpartition("\r")[2]
    return "".join(char if char.isprintable() or char == "\t" else "?" for char in text)


def last_output(path: str) -> str:
    """Return the end of a stream as text."""
    with open(path, "rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _MOST))
        return file.read().decode("utf-8", "replace")
