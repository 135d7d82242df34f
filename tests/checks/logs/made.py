"""Timelines made by hand: lines that the signatures name, without a file and without a reader."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence

from distcheck.checks.logs.matching import Matcher
from distcheck.checks.logs.model import (
    Event,
    LineAuthor,
    LogSource,
    RankStream,
    Timeline,
    Traceback,
    TracebackFrame,
    WorkerFailure,
)
from distcheck.core.model import Finding
from distcheck.rules.signatures import Kind, devices, launch, training

#: Folders of installed packages, as tracebacks name them.
SITE = "/opt/env/lib/python3.11/site-packages"


@functools.cache
def _matcher() -> Matcher:
    return Matcher((*launch.ROWS, *devices.ROWS, *training.ROWS), engine="re")


def code(path: str, line: str, function: str = "main", number: int = 7) -> TracebackFrame:
    """A frame; a path without a slash is the user's."""
    return TracebackFrame(path if "/" in path or "\\" in path else f"/workspace/{path}", number, function, line)


def said(
    text: str, *frames: TracebackFrame, who: LineAuthor = LineAuthor(), line: int = 1, source: int = 0
) -> list[Event]:
    """What a line of a log testifies to, by the signatures of launches, devices and trainings; an exception at least."""
    name, _, message = text.partition(": ")
    trace = Traceback(frames, name, message) if frames else None
    events = [
        Event(row.name, row.kind, who, source, line, None, text, values, row.codes, traceback=trace)
        for row, values in _matcher().identify(text.encode())
    ]
    if events or trace is None:
        return events
    return [Event("exception", Kind.FAILURE, who, source, line, None, text, traceback=trace)]


def timeline(
    *groups: Sequence[Event],
    workers: Sequence[WorkerFailure] = (),
    rank_streams: Sequence[RankStream] = (),
    went_on: bool = False,
    paths: Sequence[str] = ("train.log",),
) -> Timeline:
    """A timeline of these events in this order."""
    events = tuple(event for group in groups for event in group)
    return Timeline(
        tuple(LogSource(path) for path in paths), events, tuple(rank_streams), tuple(workers), went_on=went_on
    )


def worker(rank: int, local_rank: int, host: str = "node01") -> WorkerFailure:
    """A row of torchrun's table."""
    return WorkerFailure(rank, local_rank, host, 1, None, line=90)


def found_by(probe: Callable[[Timeline], Iterator[Finding]], made: Timeline) -> list[tuple[str, str, str]]:
    """Code, severity and message of each finding."""
    return [(finding.code, finding.severity.word, finding.message) for finding in probe(made)]
