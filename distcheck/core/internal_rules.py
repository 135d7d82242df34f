"""The rules about distcheck itself that the checker reports. The catalogue lists them with all others."""

from __future__ import annotations

from .model import Rule, Severity
from .registry import register_rule

_CHECKS = ("env", "ranks", "live", "lint", "launch", "pickle", "log", "rehearse", "watch")


def _rule(code: str, name: str, summary: str) -> Rule:
    return register_rule(Rule(code, name, Severity.WARNING, _CHECKS, summary, (Severity.WARNING,)))


DC901 = _rule("DC901", "probe-failed", "A probe failed")
DC902 = _rule("DC902", "probe-timed-out", "A probe did not answer in time")
DC903 = _rule("DC903", "plug-in-failed", "A plug-in failed")
