"""Which process failed: the evidence for it in one order of trust. Nothing else decides it.

The order is that of ``_EVIDENCE``: what the root cause itself names comes first, then its writer, then what launchers
report, then words of the text. The first evidence that names one rank decides. Several ranks, or none, leave it open.
A rank that reports the loss of a peer, or that waited, was not the first: as evidence of a failure that is not in the
text, only ranks without such lines count.

Which global rank a local rank, a process id or a task is, :mod:`.rank_identity` has found before. Which line is the
root cause, :mod:`.ranking` decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from distcheck.core.model import Finding, rank_ranges
from distcheck.rules.signatures import Kind

from .headings import stated_rank
from .model import ENDED_BY_SIGTERM, Event, LineAuthor, Timeline, WorkerFailure
from .rank_identity import filled

_UNKNOWN = LineAuthor()
#: Ends of ranks on several hosts that are no further apart have no order.
_SAME_TIME_S = 2.0


def failed_process(timeline: Timeline, lead: Finding | None, first: Event) -> dict[str, Any]:
    """Return the failed process as plain values: ``rank``, ``host``, ``local_rank``, ``task`` or ``ranks``.

    :param lead: the finding that is the root cause; None if no rule names it
    :param first: the first line of the root cause, or the first consequence in a text without a cause
    :return: empty if the text does not show it
    """
    named = _named_by_the_cause(timeline, lead, first)
    if named is not None:
        return named
    is_consequence = lead is None and first.kind >= Kind.TIMEOUT
    who = _UNKNOWN if is_consequence or _may_report_a_wait(timeline, lead, first) else _writer(lead, first)
    # a finding that names none although its line has a writer does so on purpose
    if who.rank is None and (is_consequence or first.who.rank is None):
        survivors = frozenset(rank for _, rank in survivors_of(timeline)) if is_consequence else frozenset()
        for evidence in _EVIDENCE:
            who = filled(who, evidence(timeline, first, survivors))
            if who.rank is not None:
                break
    values = {"rank": who.rank, "host": who.host, "local_rank": who.local_rank, "task": who.task}
    return {name: value for name, value in values.items() if value is not None}


def first_failed(timeline: Timeline) -> set[int]:
    """Return the ranks that launchers saw fail first, in the first attempt that they report of."""
    rows = [worker for worker in timeline.workers if worker.first and worker.rank is not None]
    attempt = min((worker.attempt for worker in rows), default=0)
    rows = [worker for worker in rows if worker.attempt == attempt]
    times = [worker.time for worker in rows if worker.time is not None]
    # each agent reports the first of its own host; the clocks of hosts and the seconds of a report are this exact
    if len(times) == len(rows) > 1:
        rows = [worker for worker in rows if worker.time is not None and worker.time - min(times) < _SAME_TIME_S]
    return {worker.rank for worker in rows if worker.rank is not None}


def survivors_of(timeline: Timeline) -> frozenset[tuple[int, int]]:
    """Return the attempt and rank of processes that report the loss of another one: none of them was the first."""
    return frozenset(
        (event.attempt, event.who.rank)
        for event in timeline.events
        if event.kind is Kind.LOST and event.who.rank is not None
    )


def failed_node(timeline: Timeline) -> str | None:
    """Return the node that the scheduler reports as failed."""
    return next((event.values["host"] for event in timeline.of("node-failed") if event.values.get("host")), None)


def _named_by_the_cause(timeline: Timeline, lead: Finding | None, first: Event) -> dict[str, Any] | None:
    """A node, several ranks, or none: as the root cause states it."""
    if lead is not None:
        host = {} if lead.where.host is None else {"host": lead.where.host}
        if lead.where.ranks is not None:
            return {"ranks": lead.where.ranks, **host}
        return host if lead.evidence.get("failed_rank") == "unknown" else None
    if first.signature == "node-failed":
        node = failed_node(timeline)
        return {} if node is None else {"host": node}
    if first.signature == "checkpoint-of-ranks" and (ranks := first.values.get("ranks")):
        failed = {int(rank) for rank in ranks.split(",") if rank.strip()}
        return {"rank": failed.pop()} if len(failed) == 1 else {"ranks": rank_ranges(failed)}
    return None


def _writer(lead: Finding | None, first: Event) -> LineAuthor:
    """The process that wrote the line of the root cause, or that its finding names."""
    if lead is None:
        return first.who
    return LineAuthor(lead.where.rank, lead.where.local_rank, lead.where.host)


def _may_report_a_wait(timeline: Timeline, lead: Finding | None, first: Event) -> bool:
    """Whether an exception is cut off below a wait of another rank that was over: it may be of the same wait."""
    if lead is not None or first.traceback is None or first.traceback.exception or first.who.rank is None:
        return False
    return any(
        (event.kind is Kind.TIMEOUT or event.signature == "store-wait-ended")
        and event.who.rank not in (None, first.who.rank)
        and (event.source, event.attempt) == (first.source, first.attempt)
        and event.line < first.line
        for event in timeline.events
    )


def _died(row: WorkerFailure) -> bool:
    """Whether a process ended by itself: launchers and schedulers end the others by SIGTERM."""
    return row.exitcode not in ENDED_BY_SIGTERM


def _not_later(timeline: Timeline) -> list[WorkerFailure]:
    """The rows of launchers, without torchrun's *Failures* where its report is cut off above the *Root Cause*."""
    whole = any(worker.first for worker in timeline.workers)
    return [worker for worker in timeline.workers if whole or not worker.later]


def _row_of_the_line(timeline: Timeline, first: Event, survivors: frozenset[int]) -> LineAuthor:
    """A launcher's own line about one worker."""
    rows = [worker for worker in _not_later(timeline) if (worker.source, worker.line) == (first.source, first.line)]
    return _process_of(rows[0]) if len(rows) == 1 and _died(rows[0]) and rows[0].rank not in survivors else _UNKNOWN


def _first_of_launchers(timeline: Timeline, first: Event, survivors: frozenset[int]) -> LineAuthor:
    """What launchers saw end first: torchrun's *Root Cause*, the first process of MPI, of ``mp.spawn``."""
    return _only_one(first_failed(timeline) - survivors)


def _only_row(timeline: Timeline, first: Event, survivors: frozenset[int]) -> LineAuthor:
    """The only process that launchers report at all."""
    if first_failed(timeline) - survivors:
        return _UNKNOWN
    rows = [worker for worker in _not_later(timeline) if _died(worker)]
    if len(rows) == 1:
        return _process_of(rows[0])
    # of several rows, those without a line about a lost peer may be of ranks whose text is not in the log
    return _only_one({worker.rank for worker in rows} - {None})


def _dead_worker(timeline: Timeline, first: Event, survivors: frozenset[int]) -> LineAuthor:
    """A worker that its scheduler found dead: Ray's actors, if no launcher reports a process."""
    if any(worker.rank is not None for worker in timeline.workers):
        return _UNKNOWN
    return _only_one({event.number("peer") for event in timeline.of("worker-lost")} - {None})


def _stated(timeline: Timeline, first: Event, survivors: frozenset[int]) -> LineAuthor:
    """The rank that the failing line itself states, if no launcher or scheduler reports another one."""
    if first.kind not in (Kind.CAUSE, Kind.FAILURE) or any(worker.rank is not None for worker in timeline.workers):
        return _UNKNOWN
    return LineAuthor(stated_rank(first.text))


def _only_one(ranks: set[int] | set[int | None]) -> LineAuthor:
    return LineAuthor(next(iter(ranks))) if len(ranks) == 1 else _UNKNOWN


def _process_of(row: WorkerFailure) -> LineAuthor:
    return LineAuthor(row.rank, row.local_rank, row.host)


#: What names the failed process of a line whose prefix and file do not, from the surest to the weakest.
_EVIDENCE: tuple[Callable[[Timeline, Event, frozenset[int]], LineAuthor], ...] = (
    _row_of_the_line,
    _first_of_launchers,
    _only_row,
    _dead_worker,
    _stated,
)
