"""The decorator ``@log_probe``: what a probe of a log yields becomes findings. Simple probes are rows."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from distcheck.core.model import Finding, Fix, Rule, Severity
from distcheck.core.registry import probe

from .context import survived
from .failed_rank import first_failed
from .model import Event, Timeline, found


class LogFinding(NamedTuple):
    """A finding about lines of the log, before its rule and its timeline are known.

    Without a severity it is an error, or info and context if the job survived it. With the role ``context`` it has the
    default severity of its rule.
    """

    #: at least one, the decisive one first
    events: Iterable[Event]
    message: str
    fix: Fix
    severity: Severity | None = None
    #: ``cause`` if the job did not survive it
    role: str | None = None
    #: the failed rank if it did not write the first line; -1: none
    rank: int | None = None
    evidence: Mapping[str, Any] | None = None
    #: it is always info, and no cause
    notice: bool = False
    #: for a probe of several rules
    rule: Rule | None = None


def log_probe(
    *rules: Rule, per_attempt: bool = False, at_first_failed: bool = False
) -> Callable[[Callable[[Timeline], Iterator[LogFinding]]], Callable[[Timeline], Iterator[Finding]]]:
    """Register a probe of the timeline.

    :param rules: the rules of its findings, the first for those that name none
    :param per_attempt: the job survived a finding only if it continued in the attempt of the first event
    :param at_first_failed: a finding is located at the rank that the launcher saw fail first, if it is among the events
    """

    def register(judge: Callable[[Timeline], Iterator[LogFinding]]) -> Callable[[Timeline], Iterator[Finding]]:
        @functools.wraps(judge)
        def findings(timeline: Timeline) -> Iterator[Finding]:
            for item in judge(timeline):
                events = list(item.events)
                if at_first_failed and (ranks := first_failed(timeline)):
                    events.sort(key=lambda event: event.who.rank not in ranks)
                outcome: dict[str, Any] = {"severity": item.severity, "role": item.role}
                of_failure = item.severity is None and item.role != "context"
                lived_on = survived(timeline, events[0]) if per_attempt else timeline.went_on
                if item.notice or (of_failure and lived_on):
                    outcome = {"severity": Severity.INFO, "role": "context"}
                elif of_failure:
                    outcome = {"severity": Severity.ERROR, "role": item.role or "cause"}
                yield found(
                    item.rule or rules[0],
                    timeline,
                    events,
                    item.message,
                    fix=item.fix,
                    rank=item.rank,
                    evidence=item.evidence,
                    **outcome,
                )

        return probe(*rules)(findings)

    return register


def signature_probe(
    rule: Rule, *signatures: str, per_attempt: bool = False, at_first_failed: bool = False
) -> Callable[[Callable[[Timeline, Sequence[Event]], LogFinding | None]], Callable[[Timeline], Iterator[Finding]]]:
    """Register a probe that is called with the events of signatures, if there are any, and returns its finding."""

    def register(
        judge: Callable[[Timeline, Sequence[Event]], LogFinding | None],
    ) -> Callable[[Timeline], Iterator[Finding]]:
        def of_events(timeline: Timeline) -> Iterator[LogFinding]:
            events = timeline.of(*signatures)
            found_ = judge(timeline, events) if events else None
            if found_ is not None:
                yield found_

        # not by functools.wraps: the parameter is the timeline alone
        of_events.__module__, of_events.__name__, of_events.__doc__ = judge.__module__, judge.__name__, judge.__doc__
        return log_probe(rule, per_attempt=per_attempt, at_first_failed=at_first_failed)(of_events)

    return register


class SignatureRow(NamedTuple):
    """A probe that one signature decides."""

    #: of the probe in its module
    name: str
    rule: Rule
    signature: str
    #: with values of the first event in braces
    message: str
    fix: Fix
    notice: bool = False
    rank: int | None = None


def register_rows(module: str, *rows: SignatureRow) -> dict[str, Callable[[Timeline], Iterator[Finding]]]:
    """Register rows as probes of a module. Return them by name. A probe with its own condition is a function there."""
    probes = {}
    for row in rows:

        def judge(_: Timeline, events: Sequence[Event], row: SignatureRow = row) -> LogFinding:
            message = row.message.format_map(events[0].values)
            return LogFinding(events, message, row.fix, rank=row.rank, notice=row.notice)

        judge.__module__, judge.__name__ = module, row.name
        probes[row.name] = signature_probe(row.rule, row.signature, per_attempt=True)(judge)
    return probes
