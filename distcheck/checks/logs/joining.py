"""Ranks that do not join at the store or the rendezvous in time, wait there, or join twice."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from distcheck import rules
from distcheck.core.model import Fix, rank_names
from distcheck.rules import shared_fixes
from distcheck.rules.signatures import Kind

from .context import came_through, each_line_once, failed_elsewhere, hosts_of, same_writer
from .log_probe import LogFinding, log_probe
from .model import Event, Timeline
from .one_rank_works import kept_waiting
from .waiting_ranks import rank_of

_KEY = re.compile(r"torchelastic|terminal_state|exit.?barrier|/agent/")


_COME = Fix(
    "see whether that rank's process was started and what it printed last; the same --nnodes and --nproc-per-node on "
    "every node, and a --node-rank of its own for each",
    where="launch-line",
)


@log_probe(rules.DC501)
def every_rank_meets(timeline: Timeline) -> Iterator[LogFinding]:
    """All ranks came to the store or the rendezvous in time: else it names the one, or counts them.

    A key of gloo ends in the rank that never came; a count of clients is of nodes where torchrun's agents wait.
    """
    keys = [
        event
        for event in timeline.of("store-key-missing")
        if event.values.get("missing") or not _KEY.search(event.values.get("key") or "")
    ]
    counts = [event for event in _counts(timeline) if not _is_too_many(event)]
    if not counts and any(map(_is_too_many, _counts(timeline))):
        return
    # the store's server waits for others itself, so that what it would have set is not what is missing
    came = {0 if event.signature == "clients-missing" else rank_of(event) for event in counts}
    named = sorted({int(event.values["missing"]) for event in keys if event.values.get("missing")} - came)
    ended = timeline.of("rendezvous-timeout")
    events = [*(event for event in keys if event.values.get("missing")), *counts, *ended, *keys]
    if kept_waiting(timeline) is not None:
        return
    if not events or (not named and not counts and not ended and timeline.has("watchdog-timeout", "unique-id-timeout")):
        return
    events = each_line_once(events)
    missing = named or _uncounted(timeline, counts)
    message = _missing_text(timeline, missing, counts, ended, keys)
    earlier = failed_elsewhere(
        timeline, events, {event.signature for event in timeline.events if event.kind >= Kind.TIMEOUT}
    )
    yield LogFinding(
        events,
        message,
        _COME,
        role="cause" if earlier is None else "timeout",
        rank=missing[0] if len(missing) == 1 else -1,
    )


def _counts(timeline: Timeline) -> tuple[Event, ...]:
    return timeline.of("clients-missing", "store-barrier-timeout")


def _is_too_many(event: Event) -> bool:
    """Whether more processes came than were expected."""
    return (event.number("joined") or 0) > (event.number("expected") or 0)


def _uncounted(timeline: Timeline, counts: Sequence[Event]) -> list[int]:
    """Return the ranks without any line, if a count shows that as many are missing."""
    for event in counts:
        joined, expected = event.number("joined"), event.number("expected")
        if joined is not None and expected is not None:
            silent = sorted(set(range(expected)) - set(timeline.ranks))
            if len(silent) == expected - joined and timeline.ranks:
                return silent
    return []


def _missing_text(
    timeline: Timeline, missing: Sequence[int], counts: Sequence[Event], ended: Sequence[Event], keys: Sequence[Event]
) -> str:
    if missing:
        count = next((f" ({event.values['joined']} of {event.values['expected']} came)" for event in counts), "")
        return f"{rank_names(missing)} never joined the rendezvous of all ranks{count}"
    if counts:
        first = counts[0].values
        return f"only {first['joined']} of {first['expected']} joined the rendezvous of all ranks (or nodes) in time"
    if ended and any(event.values.get("error") == "RendezvousClosedError" for event in ended):
        return "a node came to a rendezvous that was closed: the job had ended, or had begun without it"
    if ended:
        return "not all nodes came to the rendezvous in time"
    key = next((event.values["key"] for event in keys if event.values.get("key")), "")
    return f"a key of the store was never set by the rank that should have ({key})"


@log_probe(rules.DC501, rules.DC502)
def no_rank_waits_at_the_store(timeline: Timeline) -> Iterator[LogFinding]:
    """A log does not end with ranks that still wait in the store's barrier for others."""
    events = timeline.of("store-barrier-waiting")
    if any(event.kind < Kind.SIGNAL for event in timeline.events) or timeline.went_on:
        return
    at_end = [event for event in events if event.line >= timeline.sources[event.source].lines - 2]
    if not at_end:
        return
    joined, expected = at_end[-1].values.get("joined"), at_end[-1].values.get("expected")
    if _is_too_many(at_end[-1]):
        yield _crowd(at_end[-1:])
        return
    yield LogFinding(
        at_end,
        f"ranks still wait at the end of this log: {joined} of {expected} have come",
        _COME,
        rank=-1,
    )


@log_probe(rules.DC502)
def every_rank_is_there_once(timeline: Timeline) -> Iterator[LogFinding]:
    """Report a rank that NCCL got twice, or one beyond the size of its communicator, or two servers of one store."""
    events = timeline.of("rank-doubled")
    if not events:
        yield from _more_than_expected(timeline)
        return
    doubled = sorted({int(event.values["doubled"]) for event in events})
    size = events[0].values["world_size"]
    yield LogFinding(
        events,
        f"{rank_names(doubled)} of {size} came twice"
        if any(number < int(size) for number in doubled)
        else f"{rank_names(doubled)} came to a job of {size} ranks",
        shared_fixes.ONE_NODE_RANK_EACH,
        rank=doubled[0] if len(doubled) == 1 else -1,
    )


def _more_than_expected(timeline: Timeline) -> Iterator[LogFinding]:
    """More processes came than the group has, or two of them serve the store."""
    if crowds := [event for event in _counts(timeline) if _is_too_many(event)]:
        yield _crowd(crowds)
    elif servers := two_servers(timeline):
        yield LogFinding(
            servers,
            "two processes took themselves for rank 0: one serves the store and waits for the others, and the "
            "other could not listen on its port",
            shared_fixes.ONE_NODE_RANK_EACH,
            rank=0,
        )


def _crowd(events: Sequence[Event]) -> LogFinding:
    first = events[0].values
    return LogFinding(
        events,
        f"{first['joined']} processes joined a group of {first['expected']}: ranks were started twice, or two jobs "
        "use one store",
        shared_fixes.ONE_NODE_RANK_EACH,
        rank=-1,
        rule=rules.DC502,
    )


def two_servers(timeline: Timeline) -> list[Event]:
    """A rank whose store could not listen, and another of the same start whose store waits for clients.

    Only rank 0 serves; on one host and port, the one that waits is who holds the port.
    """
    if len(hosts_of(timeline)) > 1:
        return []
    for waiting in timeline.of("clients-missing"):
        for bind in timeline.of("port-taken", "listen-failed"):
            if (
                bind.attempt == waiting.attempt
                and came_through(bind, "_create_c10d_store(")
                and same_writer(bind.who, waiting.who) is False
            ):
                return [bind, waiting]
    return []
