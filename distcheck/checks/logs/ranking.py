"""Which finding is the root cause. A consequence is never the root cause if its cause is in the log.

The order, from what testifies most to what testifies least: a named cause, the first rank that failed, a time-out, a
lost peer, a signal, the launcher's table. Restarts count from the first: what fails later may be the ruins of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from distcheck.core.model import Finding, Severity
from distcheck.rules.signatures import Kind

from .failed_rank import first_failed, survivors_of
from .model import ENDED_BY_SIGTERM, ROLES, Event, LineAuthor, Timeline, WorkerFailure

#: What explains what: where a rule of the key is the cause, findings of these are what it led to. Sources: the entries
#: of the same names in the rules' pages.
EXPLAINS: dict[str, tuple[str, ...]] = {
    "DC106": ("DC401", "DC741", "DC303", "DC301", "DC502", "DC501", "DC103"),
    "DC101": ("DC740",),
    "DC120": ("DC121", "DC204", "DC301"),
    "DC121": ("DC204",),
    "DC122": ("DC740", "DC120"),
    "DC201": ("DC301", "DC303"),
    "DC202": ("DC301", "DC303", "DC203"),
    "DC203": ("DC301", "DC303"),
    "DC204": ("DC301", "DC121"),
    "DC205": ("DC301", "DC121", "DC204"),
    "DC206": ("DC303", "DC511"),
    "DC304": ("DC121", "DC204", "DC301", "DC120"),
    "DC306": ("DC301", "DC204"),
    "DC309": ("DC121", "DC204", "DC301", "DC314", "DC313", "DC307", "DC336"),
    "DC312": ("DC121", "DC204", "DC301", "DC420"),
    "DC313": ("DC121", "DC204", "DC301"),
    "DC314": ("DC121", "DC204", "DC301"),
    "DC320": ("DC327", "DC506"),
    "DC322": ("DC415", "DC414"),
    "DC323": ("DC612", "DC720"),
    "DC327": ("DC612", "DC720"),
    "DC331": ("DC503",),
    "DC333": ("DC121", "DC204", "DC301", "DC304"),
    "DC334": ("DC417", "DC413", "DC516"),
    "DC401": ("DC403", "DC501"),
    "DC404": ("DC403", "DC408", "DC501", "DC412", "DC405"),
    "DC405": ("DC403", "DC408", "DC501", "DC412"),
    "DC406": ("DC412", "DC403", "DC501"),
    "DC407": ("DC405",),
    "DC408": ("DC403", "DC501"),
    "DC411": ("DC403", "DC412", "DC405", "DC501"),
    "DC412": ("DC501",),
    "DC413": ("DC516",),
    "DC414": ("DC413", "DC516", "DC415"),
    "DC503": ("DC517", "DC334"),
    "DC517": ("DC612",),
    "DC602": ("DC601", "DC605"),
    "DC605": ("DC601", "DC612"),
    "DC611": ("DC612",),
    "DC720": ("DC612",),
    "DC723": ("DC305",),
    "DC102": ("DC403", "DC404", "DC501"),
    "DC103": ("DC501", "DC502", "DC403"),
    "DC104": ("DC403", "DC501"),
    "DC109": ("DC404", "DC403"),
    "DC803": ("DC101",),
}
#: Rules about a rank that did not join. A rank that died before is the reason.
_ABSENCE = ("DC501", "DC511", "DC512", "DC518")


class Ranked(NamedTuple):
    """The findings of a log in the order of the story, and what the story is about."""

    #: the cause first, then its consequences, then context
    findings: tuple[Finding, ...]
    #: the root cause; None if no rule matches, or the log holds only consequences
    lead: Finding | None
    #: the first line: of the lead, or of the first failure without a rule; None in a clean log
    first: Event | None
    #: ``cause``; ``unnamed``: a failure that no rule names; ``consequences``: only what others died of; ``clean``
    outcome: str


def rank_findings(timeline: Timeline, findings: Sequence[Finding]) -> Ranked:
    """Put the cause first."""
    order = _order(timeline)
    explained = _explained(findings, timeline, order)
    firsts = first_failed(timeline)
    ordered = sorted(findings, key=lambda finding: _weight(finding, timeline, order, explained, firsts))
    lead = next((finding for finding in ordered if _can_lead(finding) and finding.key not in explained), None)
    unnamed = _first_unnamed(timeline, findings)
    if lead is not None and unnamed is not None and _is_before(unnamed, lead, timeline, order):
        lead = None
    if lead is not None and role_of(lead) == "timeout" and _died_before(lead, timeline, order):
        # a process died, and its own lines are not in this text
        lead, unnamed = None, None
    if lead is not None:
        ordered.remove(lead)
        rest = [as_consequence(other, lead.code) if other.key in explained else other for other in ordered]
        return Ranked((lead, *rest), lead, _event_of(lead, timeline, order) or _stand_in(lead, timeline), "cause")
    if unnamed is not None:
        rest = [as_consequence(other) if role_of(other) in _CONSEQUENCES else other for other in ordered]
        return Ranked(tuple(rest), None, unnamed, "unnamed")
    first = _died_without_a_word(timeline)
    if first is not None:
        rest = [as_consequence(other) if role_of(other) in _CONSEQUENCES else other for other in ordered]
        return Ranked(tuple(rest), None, first, "unnamed")
    first = _first_consequence(timeline)
    if first is not None:
        ordered = [as_consequence(other) if role_of(other) in _CONSEQUENCES else other for other in ordered]
    return Ranked(tuple(ordered), None, first, "clean" if first is None else "consequences")


def role_of(finding: Finding) -> str:
    """Return the role of a finding in the root-cause summary, one of ROLES."""
    role = finding.evidence.get("role")
    return role if role in ROLES else "context"


#: Roles of consequences of another rank's failure.
_CONSEQUENCES = ("failure", "timeout", "lost")


def as_consequence(finding: Finding, cause: str | None = None) -> Finding:
    """A finding whose cause is seen: worth knowing, and no error of its own.

    :param cause: the code of the finding that explains it; None where that has no rule
    """
    if finding.severity is Severity.INFO:
        return finding
    evidence = {**finding.evidence, "explained_by": cause} if cause is not None else finding.evidence
    return finding._replace(severity=Severity.INFO, evidence=evidence)


#: Signatures by which a connection ended while it was used.
_DEATHS = ("peer-lost", "connection-lost")


def _died_before(lead: Finding, timeline: Timeline, order: dict[tuple[str, int], int]) -> bool:
    """Whether a peer was lost before the first time-out, without a line of its own about that."""
    about = _event_of(lead, timeline, order)
    if about is None or about.signature == "monitored-barrier":
        # that barrier names who did not come, and ends the connections of the others itself
        return False
    lost = [event for event in timeline.events if event.signature in _DEATHS and event.attempt == about.attempt]
    if any(_precedes(event, about) for event in lost):
        return True
    # files without a clock: a rank that waits for one that never comes loses no peer before all times are over
    return any(event.source != about.source and not _are_ordered(event, about) for event in lost)


def _are_ordered(event: Event, other: Event) -> bool:
    return event.time is not None and other.time is not None


def _can_lead(finding: Finding) -> bool:
    return finding.severity > Severity.INFO and role_of(finding) in ("cause", "failure", "timeout", "lost")


def _order(timeline: Timeline) -> dict[tuple[str, int], int]:
    """The number in the story of each line that testifies to something."""
    order: dict[tuple[str, int], int] = {}
    for number, event in enumerate(timeline.events):
        order.setdefault((timeline.path(event), event.line), number)
    return order


def _place(finding: Finding, order: dict[tuple[str, int], int]) -> int:
    return order.get((finding.where.path or "", finding.where.line or 0), len(order))


def _event_of(finding: Finding, timeline: Timeline, order: dict[tuple[str, int], int]) -> Event | None:
    number = order.get((finding.where.path or "", finding.where.line or 0))
    return None if number is None else timeline.events[number]


def _stand_in(finding: Finding, timeline: Timeline) -> Event:
    """An event for a finding that rests on no line of a text: on what flight recorders kept."""
    where = finding.where
    number = next((number for number, source in enumerate(timeline.sources) if source.path == where.path), 0)
    return Event(
        "finding", Kind.CAUSE, LineAuthor(where.rank, where.local_rank, where.host), number, 0, None, finding.message
    )


def _explained(findings: Sequence[Finding], timeline: Timeline, order: dict[tuple[str, int], int]) -> set[str]:
    """The keys of the findings whose cause is among the others."""
    loud = [finding for finding in findings if _can_lead(finding)]
    causes = [finding for finding in loud if role_of(finding) == "cause"]
    explained: set[str] = set()
    for cause in causes:
        about = _event_of(cause, timeline, order)
        for other in loud:
            earlier = _event_of(other, timeline, order)
            if about is not None and earlier is not None and earlier.attempt < about.attempt:
                continue
            if other.code in EXPLAINS.get(cause.code, ()) or (other.code in _ABSENCE and cause.code not in _ABSENCE):
                explained.add(other.key)
    # two that explain each other: the one that is seen first stays
    if causes and all(cause.key in explained for cause in causes):
        explained.discard(min(causes, key=lambda cause: _place(cause, order)).key)
    return explained


def _weight(
    finding: Finding, timeline: Timeline, order: dict[tuple[str, int], int], explained: set[str], firsts: set[int]
) -> tuple[bool, int, int, bool, int, bool, int, str]:
    about = _event_of(finding, timeline, order)
    return (
        not _can_lead(finding),
        0 if about is None else about.attempt,
        ROLES.index(role_of(finding)),
        finding.key in explained,
        -finding.severity,
        bool(firsts) and finding.where.rank not in firsts,
        _place(finding, order),
        finding.code,
    )


def _first_unnamed(timeline: Timeline, findings: Sequence[Finding]) -> Event | None:
    """The first failure that no finding is about: an ordinary exception, a death by a signal.

    The rank that the launcher saw fail first counts more than the order of lines of several files.
    """
    judged = [finding for finding in findings if role_of(finding) != "context"]
    named = {(finding.where.path, finding.where.line) for finding in judged}
    loud = [finding for finding in judged if finding.severity > Severity.INFO]
    codes = {finding.code for finding in loud}
    places = {(finding.where.path, finding.where.line) for finding in loud}
    # the same words of another rank
    signatures = {event.signature for event in timeline.events if (timeline.path(event), event.line) in places}
    signatures -= {"exception", "error-line"}
    followers = may_only_follow(timeline)
    survivors = survivors_of(timeline)
    candidates = [
        event
        for event in timeline.events
        if event.kind in (Kind.CAUSE, Kind.FAILURE)
        and (timeline.path(event), event.line) not in named
        # a finding about several lines stands at one of them
        and codes.isdisjoint(event.codes)
        and event.signature not in signatures
        and not (
            event.signature == "error-line"
            and (not is_near_the_end(timeline, event) or (event.attempt, event.who.rank) in survivors)
        )
        and (event.source, event.line) not in followers
    ]
    if not candidates or timeline.went_on:
        return None
    firsts = first_failed(timeline)
    attempt = candidates[0].attempt
    here = [event for event in candidates if event.attempt == attempt]
    return min(
        here,
        key=lambda event: (
            event.kind is not Kind.CAUSE,
            # the exceptions of a checkpoint's ranks follow the list of them
            _is_weak(event, timeline) or event.signature == "checkpoint-of-ranks",
            bool(firsts) and event.who.rank not in firsts,
        ),
    )


def _is_weak(event: Event, timeline: Timeline) -> bool:
    """Whether a line only looks like a failure, or its end is cut off."""
    return event.signature == "error-line" or (is_unfinished(event) and not _is_in_the_table(event, timeline))


def may_only_follow(timeline: Timeline) -> frozenset[tuple[int, int]]:
    """Return the file and line of tracebacks whose exceptions are cut off, below a lost peer of another rank.

    Such a traceback may report the same loss.
    """
    cut = [event for event in timeline.events if event.who.rank is not None and is_unfinished(event)]
    losses: dict[tuple[int, int], dict[int, int]] = {}
    for event in timeline.events if cut else ():
        if event.kind is Kind.LOST and event.who.rank is not None:
            losses.setdefault((event.source, event.attempt), {}).setdefault(event.who.rank, event.line)
    return frozenset(
        (event.source, event.line)
        for event in cut
        if any(
            line < event.line and rank != event.who.rank
            for rank, line in losses.get((event.source, event.attempt), {}).items()
        )
        and not _is_in_the_table(event, timeline)
    )


def is_unfinished(event: Event) -> bool:
    """Whether an exception's own line is cut off."""
    return event.traceback is not None and not event.traceback.exception


#: A line that only looks like an error counts as a failure where so few lines follow.
_END = 60


def is_near_the_end(timeline: Timeline, event: Event) -> bool:
    """Whether little was written after an event."""
    return event.until > timeline.sources[event.source].lines - _END


def _is_before(unnamed: Event, lead: Finding, timeline: Timeline, order: dict[tuple[str, int], int]) -> bool:
    """Whether a failure without a name is the cause rather than a finding: an earlier attempt, or a weaker finding."""
    about = _event_of(lead, timeline, order)
    if about is not None and about.attempt != unnamed.attempt:
        return unnamed.attempt < about.attempt
    role = role_of(lead)
    if _is_weak(unnamed, timeline):
        # the finding is about one that is certain
        return False
    if role == "cause":
        # two causes: the first that was seen, where both stand in one order
        return unnamed.kind is Kind.CAUSE and about is not None and _precedes(unnamed, about)
    if unnamed.kind is Kind.CAUSE:
        return True
    # an exception of the user's own is no consequence of a time-out, unless the clocks show it; one that repeats it is
    if about is None or _OF_THE_GROUP.search(unnamed.text):
        return about is None
    return not _is_later(unnamed, about)


#: What torch, NCCL and gloo raise where another process has exited or does not answer.
_OF_THE_GROUP = re.compile(
    r"torch\.distributed|Dist\w*Error|NCCL|HCCL|NPU (?:function )?error|gloo|ProcessGroup|TCPStore|KeyboardInterrupt|"
    r"SIGINT"
)


def _is_in_the_table(event: Event, timeline: Timeline) -> bool:
    """Whether a traceback stands in the launcher's row of the rank that failed first."""
    return any(
        worker.first and worker.source == event.source and 0 <= event.line - worker.line < _END
        for worker in timeline.workers
    )


def _is_later(event: Event, other: Event) -> bool:
    return event.time is not None and other.time is not None and event.time > other.time


def _precedes(event: Event, other: Event) -> bool:
    if event.time is not None and other.time is not None and event.time != other.time:
        return event.time < other.time
    return event.source == other.source and event.line < other.line


def _died_without_a_word(timeline: Timeline) -> Event | None:
    """The process that the launcher saw die first by itself, by a signal or a status of its own; None without one."""
    rows = [
        worker for worker in timeline.workers if worker.first and worker.exitcode not in (None, 0, *_ENDED_BY_OTHERS)
    ] or _only_one_by_a_signal(timeline)
    if timeline.went_on or not rows:
        return None
    firsts = first_failed(timeline)
    rows = [worker for worker in rows if worker.rank in firsts] or rows
    row = min(rows, key=lambda worker: (worker.attempt, worker.source, worker.line))
    if _lost_a_peer(timeline, row.rank, row.attempt) or (
        # an exception's exit code, of one whose text is not in this log while others report that they lost it
        row.rank is not None
        and 0 < (row.exitcode or 0) < 128
        and row.rank not in timeline.ranks
        and any(event.signature in _DEATHS and event.attempt == row.attempt for event in timeline.events)
    ):
        return None
    known = next((event for event in timeline.events if (event.source, event.line) == (row.source, row.line)), None)
    text = f"ended with exit code {row.exitcode}{_signal_name(row.exitcode)}, and logged no reason"
    who = LineAuthor(row.rank, row.local_rank, row.host)
    return Event("ended", Kind.FAILURE, who, row.source, row.line, row.time or (known and known.time), text)


def _only_one_by_a_signal(timeline: Timeline) -> list[WorkerFailure]:
    """Return the process whose end is reported, if a signal ended it that no launcher sends.

    Of several it is the one that a fault of its own ended, and no launcher. If the same fault ended several, it is the
    first that is reported.
    """
    ended = [worker for worker in timeline.workers if worker.exitcode not in (None, 0)] or [
        WorkerFailure(None, None, None, -int(event.values["number"]), event.time, source=event.source, line=event.line)
        for event in timeline.of("signalled")
    ]
    own = [worker for worker in ended if worker.exitcode not in _ENDED_BY_OTHERS]
    if len({worker.exitcode for worker in own}) == 1 and own[0].exitcode in _FAULTS:
        return own[:1]
    return own if len(ended) == len(own) == 1 and _signal_name(own[0].exitcode) else []


def _lost_a_peer(timeline: Timeline, rank: int | None, attempt: int) -> bool:
    """Whether a rank reports that it lost another rank."""
    return rank is not None and any(
        event.kind is Kind.LOST and event.who.rank == rank and event.attempt == attempt for event in timeline.events
    )


#: Exit codes of processes that the launcher ended itself: SIGTERM, SIGKILL and SIGINT, as torchrun writes them.
_ENDED_BY_OTHERS = (*ENDED_BY_SIGTERM, -9, -2, 137, 130)


#: Exit codes of SIGILL, SIGBUS, SIGFPE and SIGSEGV: faults of the process itself. A lost peer leads to SIGABRT.
_FAULTS = tuple(code for number in (4, 7, 8, 11) for code in (-number, 128 + number))


def _signal_name(exitcode: int | None) -> str:
    import signal

    if exitcode is None or (exitcode >= 0 and exitcode <= 128):
        return ""
    try:
        return f" ({signal.Signals(-exitcode if exitcode < 0 else exitcode - 128).name})"
    except ValueError:
        return ""


def _first_consequence(timeline: Timeline) -> Event | None:
    """Return the first consequence in a log without a cause, or None if nothing failed."""
    if timeline.went_on:
        return None
    waited = next((event for event in timeline.events if event.kind in (Kind.TIMEOUT, Kind.LOST)), None)
    if waited is not None:
        return waited
    return next((event for event in timeline.events if event.kind in (Kind.SIGNAL, Kind.TABLE)), None)
