"""The decorator ``@log_probe``: what a probe of a log yields becomes findings. Simple probes are rows."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from distcheck.core.model import Finding, Fix, Rule, Severity
from distcheck.core.registry import probe

from .context import survived
from .model import Event, Timeline, found
from .ranking import first_failed


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
    qualified_name: str,
    rule: Rule,
    detects: str,
    signature: str,
    message: str,
    fix: Fix,
    *,
    notice: bool = False,
    rank: int | None = None,
) -> Callable[[Timeline], Iterator[Finding]]:
    """Register and return a probe that reports a rule where a signature matched.

    :param qualified_name: module and name of the probe, as if it were defined there: ``f"{__name__}.name"``
    :param detects: its docstring
    :param message: with values of the first event in braces
    :param notice: the finding is always ``info``, and no cause
    :param rank: the failed rank; -1: none; None: the rank that wrote the line
    """

    def judge(timeline: Timeline) -> Iterator[LogFinding]:
        if events := timeline.of(signature):
            yield LogFinding(events, message.format_map(events[0].values), fix, notice=notice, rank=rank)

    judge.__module__, _, judge.__name__ = qualified_name.rpartition(".")
    judge.__doc__ = detects
    return log_probe(rule, per_attempt=True)(judge)
