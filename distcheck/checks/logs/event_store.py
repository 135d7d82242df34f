"""Keeps the events of one source in bounded memory: equal texts once, noisy signatures up to a number a process.

It counts events that it drops. It does not interpret them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping

from distcheck.core.signature import Kind, Signature

from .model import Event, LineAuthor, Traceback

#: Events of one signature that are kept of one process; facts about the job come once for each peer and channel.
_MOST = 20
_MOST_RECORDS = 100
#: Bytes that events may take; beyond it only what a process has not printed before, up to half as much again.
BUDGET = 48 << 20
#: Bytes of an event without its text, and of each value (measured on Python 3.11, 64 bits).
_BYTES_OF_EVENT = 700
_BYTES_OF_VALUE = 120

_NOTHING: Mapping[str, str] = {}


class Events:
    """The events of one source, in the order in which they were added.

    :param budget: bytes that they may take
    """

    def __init__(self, budget: int = BUDGET) -> None:
        self.dropped = 0
        self._budget = budget
        self._spent = 0
        self._events: list[Event | None] = []
        self._repeated: dict[int, int] = defaultdict(int)
        self._last: dict[int, int] = {}
        self._keys: list[tuple[str, LineAuthor, str]] = []
        self._seen: dict[tuple[str, LineAuthor, str], int] = {}
        self._counts: dict[tuple[str, LineAuthor], int] = defaultdict(int)

    def copy(self) -> Events:
        """A copy that takes more without changing this one."""
        other = Events(self._budget)
        other.dropped, other._spent = self.dropped, self._spent
        other._events = self._events[:]
        other._repeated = self._repeated.copy()
        other._last = self._last.copy()
        other._keys = self._keys[:]
        other._seen = self._seen.copy()
        other._counts = self._counts.copy()
        return other

    def add(
        self,
        row: Signature,
        who: LineAuthor,
        line: int,
        time: float | None,
        text: str,
        values: Mapping[str, str] = _NOTHING,
        *,
        clean: Callable[[str], str] = str,
    ) -> int | None:
        """Add an event; return its number, or that of the one that it repeats, or None if it was dropped.

        :param clean: makes a value or text fit to be shown; called only for what is kept
        """
        key = (row.name, who, text)
        number = self._seen.get(key)
        if number is not None:
            self.repeat(number, line)
            return number
        count = self._counts[key[:2]]
        too_many = count >= (_MOST_RECORDS if row.kind == Kind.RECORD else _MOST)
        over = self._spent - self._budget
        if too_many or (over > 0 and (count or over > self._budget // 2)):
            self.dropped += 1
            return None
        self._counts[key[:2]] = count + 1
        self._spent += _BYTES_OF_EVENT + len(text) + _BYTES_OF_VALUE * len(values)
        kept = {name: clean(value) for name, value in values.items()} if values else _NOTHING
        number = self._seen[key] = len(self._events)
        self._keys.append(key)
        self._events.append(Event(row.name, row.kind, who, 0, line, time, clean(text), kept, row.codes))
        return number

    def repeat(self, number: int, line: int, count: int = 1) -> None:
        """Count lines that repeat an event, the last of which is this."""
        self._repeated[number] += count
        self._last[number] = max(line, self._last.get(number, 0))

    def __len__(self) -> int:
        return len(self._events)

    def __getitem__(self, number: int) -> Event | None:
        return self._events[number]

    def attach(self, number: int, traceback: Traceback, who: LineAuthor | None = None) -> None:
        """An event's line is the message of this traceback's exception.

        :param who: whose exception it is; None if the writer of the line raised it
        """
        event = self._events[number]
        # of equal lines the last counts: a process ends with it
        if event is not None and (event.traceback is None or number in self._last):
            self._events[number] = event._replace(traceback=traceback, who=event.who if who is None else who)
            self._spent += 100 * len(traceback.frames)

    def remove(self, number: int) -> None:
        """Remove an event; the same text printed later is an event again."""
        self._events[number] = None
        if self._seen.get(self._keys[number]) == number:
            del self._seen[self._keys[number]]

    def begin_part(self) -> None:
        """Note a restart, or the text of another process: from here on, equal lines are new events."""
        self._seen.clear()
        self._counts.clear()

    def result(self) -> tuple[Event, ...]:
        """The events in the order of their lines."""
        kept = [
            event._replace(repeated=self._repeated[number], last_line=self._last[number])
            if number in self._repeated
            else event
            for number, event in enumerate(self._events)
            if event is not None
        ]
        return tuple(sorted(kept, key=lambda event: event.line))
