"""The note that a finding becomes if nothing that runs reaches its line."""

from __future__ import annotations

from .model import Finding, Severity
from .rank_evidence import UNREACHED


def not_reached(finding: Finding) -> Finding:
    """Return a finding as a note that shows why nothing reaches it."""
    evidence = dict(finding.evidence)
    name = evidence.pop(UNREACHED)
    message = f"{finding.message}; no documented launch reaches {name}: nothing that runs names it"
    return finding._replace(severity=Severity.INFO, message=message, evidence=evidence)
