"""Work of one rank, most often rank 0, for which the others wait until a time limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from distcheck import rules
from distcheck.core.model import Fix, rank_names
from distcheck.rules.signatures import Kind

from .clock import of_bar
from .context import failed_elsewhere
from .log_probe import LogFinding, log_probe
from .model import Event, Timeline
from .waiting_ranks import WaitingRank, rank_of

#: Numbers of collectives up to which it may be the barrier before the training begins.
_EARLY = 10
_LONELY = ("BARRIER", "BROADCAST", "ALLREDUCE", "_ALLGATHER_BASE", "ALLGATHER")
#: The waits at the store that are long enough for work, in milliseconds; and how near to their end it must stand.
_LONG_MS = 60_000
_RIGHT_BEFORE = 5
WORK_APART = Fix(
    "do that work before the job, in a script of its own; or give the group the time that it needs: "
    "init_process_group(…, timeout=timedelta(hours=2))",
    where="code",
)


def busy_rank_zero(timeline: Timeline, waits: Sequence[WaitingRank]) -> Event | None:
    """Return rank 0's last line about work of its own while the others wait for it in a small collective, or None."""
    waiting = {wait.rank for wait in waits}
    if 0 in waiting or not waits:
        return None
    small = all(
        wait.operation == "BARRIER"
        or wait.sizes == "1 element"
        or ((wait.sequence or _EARLY + 1) <= _EARLY and wait.operation in _LONELY)
        or wait.sequence is None
        for wait in waits
    )
    if not small:
        return None
    works = [
        event
        for event in timeline.of("one-rank-works")
        if event.who.rank == 0 or (event.who.rank is None and event.who.local_rank in (None, 0))
    ]
    works = [event for event in works if _lasts_as_long(timeline, event, waits)]
    return max(works, key=lambda event: event.line) if works else None


#: The part of a time limit for which work must have lasted, and by how much a bar of other work may exceed it.
_MOST_OF_IT = 0.5
_BARELY_LONGER = 1.2


def _lasts_as_long(timeline: Timeline, work: Event, waits: Sequence[WaitingRank]) -> bool:
    """Whether work is unfinished and has lasted most of the wait, by its progress bar.

    Work without a bar counts if its process printed nothing more before the waits ended. After many collectives, a bar
    of more time than the wait is that of the training.
    """
    bar = of_bar(work.text)
    limit = max((wait.timeout_s or 0 for wait in waits), default=0)
    if bar is None:
        own = [voice for voice in timeline.rank_streams if voice.who == work.who and voice.source == work.source]
        first = min((wait.event.line for wait in waits if wait.event and wait.event.source == work.source), default=0)
        return not _is_glued(work) and not any(work.until < voice.last_line < first for voice in own)
    done, elapsed = bar
    early = all((wait.sequence or 0) <= _EARLY for wait in waits)
    return done != 100 and elapsed >= limit * _MOST_OF_IT and (early or elapsed <= limit * _BARELY_LONGER)


def busy_text(work: Event) -> str:
    return f"{'another process' if work.who.rank is None else 'rank 0'} was still at work"


@log_probe(rules.DC726)
def no_rank_is_kept_waiting_at_the_store(timeline: Timeline) -> Iterator[LogFinding]:
    """No rank's wait at the store ran out while another process, by its last words, was still at work.

    Only where that work was not done, and comes right before: an older progress bar means nothing.
    """
    kept = kept_waiting(timeline)
    if kept is None:
        return
    waits, work = kept
    minutes = (waits[0].number("timeout_ms") or 0) / 60_000
    yield LogFinding(
        [*waits, work],
        f"{rank_names(rank for event in waits if (rank := rank_of(event)) is not None)} waited at the store until "
        f"{minutes:g} minutes were over, and another process was still at work: {work_text(work)}",
        WORK_APART,
        rank=0,
    )


def kept_waiting(timeline: Timeline) -> tuple[list[Event], Event] | None:
    """The ends of long waits at the store, and the unfinished work of a process that does not wait."""
    waits = [
        event
        for event in timeline.of("store-wait-ended", "store-key-missing")
        if (event.number("timeout_ms") or 0) >= _LONG_MS and rank_of(event) not in (None, 0)
    ]
    if not waits or timeline.went_on or timeline.has("clients-missing", "watchdog-timeout", "gloo-timeout"):
        return None
    family = {event.signature for event in timeline.events if event.kind >= Kind.TIMEOUT}
    if failed_elsewhere(timeline, waits, family) is not None:
        return None
    works = [
        event
        for event in timeline.of("one-rank-works")
        if event.source == waits[0].source
        and 0 <= waits[0].line - event.line <= _RIGHT_BEFORE
        and event.who.rank in (None, 0)
        and _is_under_way(event, (waits[0].number("timeout_ms") or 0) / 1000)
    ]
    return (waits, works[-1]) if works else None


def work_text(event: Event) -> str:
    return event.text[:120].strip()


def _is_glued(event: Event) -> bool:
    """Whether a progress bar, which ends no line, stands before the line of another process."""
    return (event.values.get("work") or event.text) not in event.text


def _is_under_way(event: Event, limit_s: float) -> bool:
    """Whether a progress bar is not at its end, and has been drawn for most of a time."""
    bar = of_bar(event.text)
    return bar is not None and bar[0] not in (None, 100) and bar[1] >= limit_s * _MOST_OF_IT
