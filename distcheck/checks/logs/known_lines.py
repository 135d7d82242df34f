"""Lines that show a failure and nothing else: the next time, they are only counted."""

from __future__ import annotations

from collections.abc import Sequence

from .event_store import Events
from .model import LineAuthor
from .rank_streams import RankStreams

#: Lines that are known, at most.
_MOST = 50_000


class _KnownLine:
    """A line with what it makes, and its repetitions that the events do not have yet."""

    __slots__ = ("count", "last", "numbers", "raw", "who")

    def __init__(self, raw: bytes, who: LineAuthor, numbers: tuple[int, ...]) -> None:
        self.raw = raw
        self.who = who
        self.numbers = numbers
        self.count = self.last = 0


class KnownLines:
    """Counts lines byte for byte, and hands the counts over before the events are read."""

    def __init__(self) -> None:
        self._lines: dict[bytes, _KnownLine] = {}
        #: those with repetitions that were not handed over
        self._repeated: list[_KnownLine] = []

    def __contains__(self, raw: object) -> bool:
        return raw in self._lines

    def among(self, lines: Sequence[bytes]) -> list[int]:
        """Return the places of the known ones among lines."""
        known = self._lines
        return [place for place, raw in enumerate(lines) if raw in known]

    def copy(self) -> KnownLines:
        """Return known lines that take more without changing these. All counts were handed over before."""
        other = KnownLines()
        other._lines = {raw: _KnownLine(raw, known.who, known.numbers) for raw, known in self._lines.items()}
        return other

    def add(self, raw: bytes, who: LineAuthor, numbers: Sequence[int]) -> None:
        """Keep a line with its writer and the numbers of its events, where there is room."""
        if len(self._lines) < _MOST:
            self._lines[raw] = _KnownLine(raw, who, tuple(numbers))

    def repeat(self, raw: bytes, line: int) -> bool:
        """Count a line; return whether it is known."""
        known = self._lines.get(raw)
        if known is None:
            return False
        if not known.count:
            self._repeated.append(known)
        known.count += 1
        known.last = line
        return True

    def hand_over(self, events: Events, rank_streams: RankStreams) -> None:
        """Give all counts to the events, and the last lines to the streams of their writers."""
        for known in self._repeated:
            for number in known.numbers:
                events.repeat(number, known.last, known.count)
            rank_streams.note(known.who, known.last, known.raw)
            known.count = 0
        self._repeated.clear()

    def forget(self) -> None:
        """Forget all lines: they may mean something else from here on. All counts were handed over before."""
        self._lines.clear()
