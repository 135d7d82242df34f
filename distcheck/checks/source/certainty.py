"""How certain a finding is, and which severity that allows."""

from __future__ import annotations

from distcheck.core.model import Rule, Severity

from .values import Atom, Certainty, RankCondition, added


def severity_for(rule: Rule, level: Severity, certainty: int) -> Severity:
    """Return the severity of a finding of a rule: an error only if each step of its flow is proven.

    One merged step makes it a warning at most; with two of them, or with nothing but a name, it is ``info``.
    """
    if certainty == Certainty.PROVEN:
        return level
    found = min(level, Severity.WARNING if certainty == Certainty.MERGED else Severity.INFO)
    return found if found in rule.severities else Severity.INFO


def certainty_of(*basis: Atom | RankCondition | int) -> int:
    """Return how certain a finding is that rests on these alternatives and conditions."""
    return added(
        *(
            added(item.certainty, item.when.certainty)
            if isinstance(item, Atom)
            else item.certainty
            if isinstance(item, RankCondition)
            else item
            for item in basis
        )
    )
