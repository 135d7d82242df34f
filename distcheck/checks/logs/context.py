"""What stands around a line of a log: whether the job lived on, what else had failed by then, through which code it
came, on how many hosts the job ran. It judges nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from distcheck.core.model import grouped_pairs, rank_ranges
from distcheck.rules.signatures import Kind

from .model import Event, LineAuthor, Timeline

#: A name or address from a log that may stand in a command.
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]*")
#: Exceptions that a launcher raises because one of its workers has failed.
_OF_LAUNCHERS = ("ChildFailedError", "CalledProcessError", "ProcessExitedException", "SignalException")
#: Loopback as networks write it.
_LOOPBACK = re.compile(r"(?:127\.[\d.]+|::1|localhost|0\.0\.0\.0)$")


def survived(timeline: Timeline, event: Event) -> bool:
    """Whether the job went on after a line, in the same attempt."""
    return timeline.went_on and event.attempt >= timeline.attempts - 1


def same_writer(one: LineAuthor, other: LineAuthor) -> bool | None:
    """Whether two lines are of the same process; None where they name theirs in different ways, or not at all."""
    pairs = [(mine, theirs) for mine, theirs in zip(one, other, strict=True) if mine is not None and theirs is not None]
    return all(mine == theirs for mine, theirs in pairs) if pairs else None


def is_later(event: Event, other: Event) -> bool:
    """Whether an event is known to have happened after another."""
    if event.attempt != other.attempt:
        return event.attempt > other.attempt
    if event.time is not None and other.time is not None and event.time != other.time:
        return event.time > other.time
    return event.source == other.source and event.line > other.line


def failed_elsewhere(timeline: Timeline, events: Sequence[Event], family: Iterable[str]) -> Event | None:
    """A failure of another process that may have come before these events, and is none of their family.

    Where two files share no clock, the order is unknown. Then the failure counts.
    """
    names = frozenset(family)
    lines = {(event.source, event.line) for event in timeline.of(*names)}
    first = events[0]
    for event in timeline.events:
        if event.kind not in (Kind.CAUSE, Kind.FAILURE) or event.signature in names | {"error-line"}:
            continue
        if (event.source, event.line) in lines or event.attempt > first.attempt or is_of_launcher(event):
            continue
        writers = {same_writer(event.who, one.who) for one in events}
        if False in writers and True not in writers and not is_later(event, first):
            return event
    return None


def is_of_launcher(event: Event) -> bool:
    """Whether an exception only reports that a worker failed."""
    return any(name in event.text for name in _OF_LAUNCHERS)


def came_through(event: Event, *parts: str) -> bool:
    """Whether the traceback of an event leads through code whose file or text holds one of these."""
    if event.traceback is None:
        return False
    return any(
        part in frame.path.replace("\\", "/") or part in frame.code
        for frame in event.traceback.frames
        for part in parts
    )


def hosts_of(timeline: Timeline) -> frozenset[str]:
    """The hosts that the log names as places of its ranks."""
    named = {worker.host for worker in timeline.workers if worker.host}
    return frozenset(named | set(timeline.hosts))


def on_one_host(timeline: Timeline) -> bool:
    """Whether the log names exactly one host."""
    return len(hosts_of(timeline)) == 1


def is_loopback(address: str) -> bool:
    """Whether an address is a loopback address."""
    return _LOOPBACK.match(address) is not None


def in_a_command(text: str | None) -> str | None:
    """A name of the log, if it may be put into a command."""
    return text if text and _PLAIN.fullmatch(text) else None


def ranks_text(events: Iterable[Event]) -> str:
    """``rank 3``, ``ranks 1-7``, or nothing where no rank is known."""
    ranks = sorted({event.who.rank for event in events if event.who.rank is not None})
    return f"rank{'s' if len(ranks) > 1 else ''} {rank_ranges(ranks)}" if ranks else ""


def value_of(events: Iterable[Event], name: str) -> str | None:
    """The first value of that name among events."""
    return next((event.values[name].strip() for event in events if event.values.get(name)), None)


def each_line_once(events: Sequence[Event]) -> list[Event]:
    """The first event of each line, where the last one stands."""
    return list({(event.source, event.line): event for event in reversed(events)}.values())[::-1]


def grouped(events: Iterable[Event], *names: str) -> Iterator[tuple[tuple[str, ...], list[Event]]]:
    """Events by some of their values, in the order in which the groups begin."""
    yield from grouped_pairs((tuple(event.values.get(name) or "" for name in names), event) for event in events).items()
