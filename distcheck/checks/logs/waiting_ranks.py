"""Where each rank waited when its time was over, from watchdogs' lines, tracebacks and flight recorders' dumps.

It only collects and compares. :mod:`.hangs` draws the conclusions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from distcheck.core.model import grouped_pairs, rank_names

from .context import each_line_once
from .model import Event, Timeline

#: torch 2.3 prints uninitialised memory where nothing was completed yet.
_GARBAGE = 1 << 31
#: Operations in which every rank brings as much as any other.
_EVEN = frozenset(
    ("ALLREDUCE", "BROADCAST", "REDUCE", "BARRIER", "_REDUCE_SCATTER_BASE", "REDUCE_SCATTER", "_ALLGATHER_BASE")
)
#: Two sides of one thing, or several in one.
_OF_PAIRS = frozenset(("SEND", "RECV", "COALESCED", "ALLTOALL", "ALLTOALL_BASE", "UNKNOWN"))
_NAMES = {
    "all_reduce": "ALLREDUCE",
    "all_gather": "ALLGATHER",
    "all_gather_into_tensor": "_ALLGATHER_BASE",
    "all_gather_single": "_ALLGATHER_BASE",
    "_all_gather_base": "_ALLGATHER_BASE",
    "reduce_scatter_tensor": "_REDUCE_SCATTER_BASE",
    "reduce_scatter_single": "_REDUCE_SCATTER_BASE",
    "_reduce_scatter_base": "_REDUCE_SCATTER_BASE",
    "reduce_scatter": "REDUCE_SCATTER",
    "broadcast": "BROADCAST",
    "barrier": "BARRIER",
    "monitored_barrier": "BARRIER",
    "reduce": "REDUCE",
    "gather": "GATHER",
    "scatter": "SCATTER",
    "all_to_all": "ALLTOALL",
    "all_to_all_single": "ALLTOALL_BASE",
    "send": "SEND",
    "recv": "RECV",
    "all_gather_object": "ALLGATHER",
    "broadcast_object_list": "BROADCAST",
}


#: What :func:`called_in` returns for a rank in a backward pass, in which DDP and FSDP call collectives from C++.
BACKWARD = "backward()"


class WaitingRank(NamedTuple):
    """A rank in a collective that did not end."""

    rank: int
    #: the line that has it; None for a dump
    event: Event | None
    operation: str
    sequence: int | None = None
    #: elements or shape that the rank brought
    sizes: str = ""
    #: as torch names it: ``0 (default_pg)``
    group: str = ""
    timeout_s: float | None = None
    #: ``train.py:88 in main``
    place: str = ""
    #: number of the last collective that the rank called in this group
    enqueued: int | None = None

    @property
    def description(self) -> str:
        """``ALLREDUCE #412 (20 elements) at train.py:88``."""
        number = f" #{self.sequence}" if self.sequence is not None else ""
        sizes = f" ({self.sizes})" if self.sizes else ""
        return f"{self.operation or 'a collective'}{number}{sizes}" + (f" at {self.place}" if self.place else "")


class LastCollective(NamedTuple):
    """The last collective of a rank that does not report a wait."""

    rank: int
    event: Event | None
    enqueued: int


def watchdog_waits(timeline: Timeline) -> tuple[list[WaitingRank], list[LastCollective]]:
    """The first wait of each rank in the group in which most wait, and the standing of the others."""
    events = timeline.of("watchdog-timeout")
    if not events:
        return [], []
    attempt = events[0].attempt
    places = [event for event in timeline.of("watchdog-place", "watchdog-dump") if event.attempt == attempt]
    found: dict[tuple[str, int], WaitingRank] = {}
    for event in events:
        rank = rank_of(event)
        if event.attempt != attempt or rank is None:
            continue
        wait = _wait(event, rank, places)
        found.setdefault((wait.group, rank), wait)
    if not found:
        return [], []
    sizes = Counter(group for group, _ in found)
    group = max(sizes, key=lambda name: (sizes[name], -list(sizes).index(name)))
    waits = [wait for (name, _), wait in found.items() if name == group]
    waiting = {rank for _, rank in found}
    standings: dict[int, LastCollective] = {}
    for event in places:
        rank, enqueued = rank_of(event), _count(event, "enqueued")
        label = event.values.get("group") or ""
        if rank is None or enqueued is None or rank in waiting or (group and label and label != group):
            continue
        standings[rank] = LastCollective(
            rank, event, max(enqueued, standings[rank].enqueued if rank in standings else 0)
        )
    return sorted(waits), sorted(standings.values())


def of_several_groups(timeline: Timeline) -> bool:
    """Whether one rank reports waits in another order than it called them: then they are of several groups.

    Each group has numbers and ranks of its own, and old lines name no group. A watchdog repeats a number, but it does
    not go back to one that it had passed over.
    """
    seen: dict[tuple[int, int, int | None], list[int]] = {}
    for event in timeline.of("watchdog-timeout"):
        number = event.number("sequence")
        if number is None or event.values.get("group"):
            continue
        before = seen.setdefault((event.source, event.attempt, rank_of(event)), [])
        if before and number < max(before) and number not in before:
            return True
        before.append(number)
    return False


def _wait(event: Event, rank: int, places: Sequence[Event]) -> WaitingRank:
    sequence = event.number("sequence")
    milliseconds = event.number("timeout_ms")
    own = [place for place in places if rank_of(place) == rank]
    near = [place for place in own if place.number("sequence") == sequence and sequence is not None]
    known = near or (own if not any(place.values.get("group") for place in own) else [])
    return WaitingRank(
        rank=rank,
        event=event,
        # a terminal's [line/lines] covers the end of the name
        operation="" if event.values.get("covered") else event.values.get("operation") or "",
        sequence=sequence,
        sizes=_sizes(event),
        group=next((place.values["group"] for place in near if place.values.get("group")), ""),
        timeout_s=None if milliseconds is None else milliseconds / 1000,
        place=place_of(event),
        enqueued=max((number for place in known if (number := _count(place, "enqueued")) is not None), default=None),
    )


def _sizes(event: Event) -> str:
    if event.values.get("shape"):
        return f"[{event.values['shape']}]"
    number = event.number("numel_in")
    return "" if number is None else f"{number} element{'s' * (number != 1)}"


def _count(event: Event, name: str) -> int | None:
    text = event.values.get(name) or ""
    if text == "-1":
        return 0
    number = event.number(name)
    return number if number is not None and number < _GARBAGE else None


def gloo_waits(timeline: Timeline) -> list[WaitingRank]:
    """The ranks whose gloo operation came to its time limit; what they called is known where there is a traceback."""
    found: dict[int, WaitingRank] = {}
    timeouts = timeline.of("gloo-timeout")
    # the first to give up ends the connections of the others, which were in calls of their own
    lost = lost_in_collectives(timeline) if timeouts else []
    for event in (*timeouts, *lost):
        rank = event.who.rank
        if rank is not None and rank not in found:
            milliseconds = event.number("timeout_ms")
            found[rank] = WaitingRank(
                rank,
                event,
                called_in(event) or "a collective",
                timeout_s=None if milliseconds is None else milliseconds / 1000,
                place=place_of(event),
            )
    return sorted(found.values())


def lost_in_collectives(timeline: Timeline) -> list[Event]:
    """Return the lines of ranks that lost a peer in a collective that their traceback shows."""
    lost = timeline.of("peer-lost", "connection-lost", "nccl-remote-error")
    return each_line_once([event for event in lost if called_in(event)])


def rank_of(event: Event) -> int | None:
    """The rank that a line is about: its writer, else the one that it names."""
    return event.who.rank if event.who.rank is not None else event.number("rank")


def place_of(event: Event) -> str:
    """``train.py:88 in main``: the innermost line of the user's own code."""
    frame = None if event.traceback is None else event.traceback.users
    return "" if frame is None else f"{frame.path.rsplit('/', 1)[-1]}:{frame.line}"


def called_in(event: Event) -> str:
    """The collective whose call a traceback ends in, as watchdogs name it, or BACKWARD."""
    if event.traceback is None or not event.traceback.frames:
        return ""
    if event.traceback.frames[-1].function == "_engine_run_backward":
        return BACKWARD
    for frame in reversed(event.traceback.frames):
        if "distributed" in frame.path and frame.function in _NAMES:
            return _NAMES[frame.function]
    return ""


def dump_waits(timeline: Timeline) -> tuple[list[WaitingRank], list[LastCollective]]:
    """The same from flight recorders: those that are furthest wait, the others did not come so far."""
    histories = dump_histories(timeline)
    if len(histories) < 2:
        return [], []
    last = {rank: max(history) for rank, history in histories.items()}
    front = max(last.values())
    waits = [histories[rank][front] for rank, number in last.items() if number == front]
    return sorted(waits), [
        LastCollective(rank, None, number) for rank, number in sorted(last.items()) if number < front
    ]


def dump_histories(timeline: Timeline) -> dict[int, dict[int, WaitingRank]]:
    """By rank the collectives of the group in which the ranks part, by number."""
    by_group: dict[str, dict[int, dict[int, WaitingRank]]] = {}
    for dump in timeline.dumps:
        for entry in dump.entries:
            if dump.rank is None or entry.sequence is None:
                continue
            words = ", ".join(filter(None, (entry.dtypes.lower(), entry.sizes)))
            wait = WaitingRank(dump.rank, None, entry.operation, entry.sequence, words, entry.group, place=entry.place)
            by_group.setdefault(entry.group, {}).setdefault(dump.rank, {})[entry.sequence] = wait
    several = {group: ranks for group, ranks in by_group.items() if len(ranks) > 1}
    for ranks in several.values():
        if len({max(history) for history in ranks.values()}) > 1 or first_difference(ranks):
            return ranks
    return max(several.values(), key=len, default={})


def first_difference(histories: Mapping[int, Mapping[int, WaitingRank]]) -> list[WaitingRank]:
    """The calls at the first number at which ranks called different things; empty where they did not."""
    common = set.intersection(*(set(history) for history in histories.values())) if histories else set()
    for number in sorted(common):
        waits = [history[number] for _, history in sorted(histories.items())]
        if differ(waits):
            return waits
    return []


def differ(waits: Sequence[WaitingRank]) -> bool:
    """Whether ranks called different operations, or the same with sizes that have to be equal and are not."""
    operations = {wait.operation for wait in waits if wait.operation}
    if len(operations) > 1:
        return not operations & _OF_PAIRS
    if not all(_NAMES.get(name, name) in _EVEN for name in operations):
        return False
    return len({wait.sizes for wait in waits if wait.sizes}) > 1


def odd_one(waits: Iterable[WaitingRank]) -> int:
    """The only rank that differs from all others, which are at least two; -1 where there is no such rank."""
    groups = grouped_pairs(((wait.sequence, wait.operation, wait.sizes, wait.place), wait.rank) for wait in waits)
    if len(groups) != 2:
        return -1
    small, large = sorted(groups.values(), key=len)
    return small[0] if len(small) == 1 and len(large) > 1 else -1


def describe_waits(waits: Iterable[WaitingRank], verbs: tuple[str, str] = ("waits", "wait")) -> str:
    """``ranks 0-2 wait in ALLREDUCE #412 (1 element), rank 3 in BROADCAST #411``.

    :param verbs: of one rank and of several
    """
    groups = grouped_pairs((wait.description, wait.rank) for wait in waits)
    parts = [
        f"{rank_names(ranks)} {verbs[len(ranks) > 1] + ' ' if number == 0 else ''}in {what}"
        for number, (what, ranks) in enumerate(groups.items())
    ]
    return ", ".join(parts[:4]) + (f" and {len(parts) - 4} more call sites" if len(parts) > 4 else "")
