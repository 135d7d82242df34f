"""Probes that one signature decides, as rows: a rule, a signature, one sentence, one fix.

A probe with a condition of its own is a function in the module of its topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from distcheck.core.model import Finding, Fix, Rule, Severity
from distcheck.core.registry import probe

from .context import severity_of
from .model import Timeline, found


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

    def judge(timeline: Timeline) -> Iterator[Finding]:
        events = timeline.of(signature)
        if events:
            outcome = {"severity": Severity.INFO, "role": "context"} if notice else severity_of(timeline, events[0])
            text = message.format_map(events[0].values)
            yield found(rule, timeline, events, text, fix=fix, rank=rank, **outcome)

    judge.__module__, _, judge.__name__ = qualified_name.rpartition(".")
    judge.__qualname__, judge.__doc__ = judge.__name__, detects
    return probe(rule)(judge)
