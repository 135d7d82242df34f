"""Which restart an event belongs to, and the order of events, from folders, lines and clocks."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise

from distcheck.core.model import grouped

from .model import Event, LineAuthor, LogSource, WorkerFailure

_LEFT = re.compile(r"\b(\d{1,4})/(\d{1,4}) attempts left; will restart worker group")
#: Since torch 2.0 torchrun's own word of a restart is not printed without LOGLEVEL=INFO; this, of each failure, is.
_FAILED = re.compile(r"failed \(exitcode: -?\d+\) local_rank: \d+ \(pid: \d+\) of binary")
_COUNT = re.compile(r"(?i)\b(?:torchelastic_)?restart_count[=:] ?(\d{1,4})\b")
#: A step back in a file that is no disorder of lines: another host's clock, or another run in the same file.
_STEP_BACK_S = 5.0


class Attempts:
    """Where restarts stand in each file, and when they were."""

    def __init__(self, sources: Sequence[LogSource], events: Sequence[Event]) -> None:
        self._sources = sources
        #: by file: the first line of each attempt, and its number
        self._marks: dict[int, tuple[list[int], list[int]]] = {}
        times: dict[int, float] = {}
        marked = [(event, attempt) for event in events if (attempt := _attempt_after(event.text))]
        for event, attempt in marked or _failures_before_others(events):
            lines, numbers = self._marks.setdefault(event.source, ([], []))
            if not numbers or attempt > numbers[-1]:
                lines.append(event.line)
                numbers.append(attempt)
            if event.time is not None:
                times[attempt] = min(event.time, times.get(attempt, event.time))
        ordered = sorted((time, attempt) for attempt, time in times.items())
        self._times = [time for time, _ in ordered]
        self._numbers = [attempt for _, attempt in ordered]

    def of(self, source: int, line: int, time: float | None) -> int:
        """The number of the restart, from 0."""
        of_folder = self._sources[source].attempt
        if of_folder is not None:
            return of_folder
        marks = self._marks.get(source)
        if marks is not None:
            # the line about the restart still belongs to the attempt that ended
            place = bisect_right(marks[0], line - 1)
            return marks[1][place - 1] if place else 0
        if time is not None and self._times:
            place = bisect_right(self._times, time)
            return self._numbers[place - 1] if place else 0
        return 0


def _attempt_after(text: str) -> int | None:
    """The number of the attempt that begins with this line."""
    if "attempts left" in text:
        match = _LEFT.search(text)
        return int(match[2]) - int(match[1]) + 1 if match and int(match[1]) <= int(match[2]) else None
    if "estart_count" in text or "RESTART_COUNT" in text:
        match = _COUNT.search(text)
        return int(match[1]) if match else None
    return None


def _failures_before_others(events: Sequence[Event]) -> list[tuple[Event, int]]:
    """Return the lines of one launcher that report failures. Each but its last was followed by a restart."""
    of_launcher: dict[tuple[int, LineAuthor], list[Event]] = {}
    seen: set[tuple[int, int]] = set()
    for event in events:
        if (event.source, event.line) not in seen and "(exitcode: " in event.text and _FAILED.search(event.text):
            seen.add((event.source, event.line))
            # two launchers without a name can't be distinguished: that is no restart
            if event.who.pid is not None:
                of_launcher.setdefault((event.source, event.who), []).append(event)
    return [(event, number) for lines in of_launcher.values() for number, event in enumerate(lines[:-1], start=1)]


def in_order(events: Sequence[Event], workers: Sequence[WorkerFailure]) -> tuple[Event, ...]:
    """Events by attempt, then by time.

    A line without a time has that of the last line before it that has one. A file without any has the time that the
    launcher gives for its rank's end, else it comes first: tracebacks have no times, what they led to often has.
    """
    ends = {(worker.attempt, worker.rank): worker.time for worker in workers if worker.time is not None}
    by_source = grouped(events, lambda event: event.source)
    keyed: list[tuple[int, float, int, int, Event]] = []
    for source, ones in by_source.items():
        ones.sort(key=lambda event: event.line)
        times = _times(ones, ends, alone=len(by_source) == 1)
        keyed.extend((event.attempt, time, source, event.line, event) for event, time in zip(ones, times, strict=True))
    keyed.sort(key=lambda item: item[:4])
    return tuple(item[4] for item in keyed)


def _times(events: Sequence[Event], ends: Mapping[tuple[int, int | None], float | None], *, alone: bool) -> list[float]:
    """A time for each event of one file, for its order only; what is not known is before everything."""
    own = [event.time for event in events]
    timed = [time for time in own if time is not None]
    if not timed:
        return [ends.get((event.attempt, event.who.rank)) or float("-inf") for event in events]
    if alone and any(after < before - _STEP_BACK_S for before, after in pairwise(timed)):
        # the clocks of several hosts, or several runs: the order of the lines is surer
        return [0.0] * len(own)
    times: list[float] = []
    last = timed[0]
    for time in own:
        last = last if time is None else time
        times.append(last)
    return times
