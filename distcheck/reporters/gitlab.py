"""The code quality report of GitLab CI: one JSON array, the same members for every finding.

GitLab drops what has no path and no line, and distinguishes findings by their fingerprints alone. So a finding
without a file stands in line 1 of the file that is called after the command, and equal keys get numbers.
"""

from __future__ import annotations

from typing import Any

from distcheck.core.model import Finding, Report, Severity

from . import Style, line_of
from .locations import Repository, context, fingerprints, has_file, repository, shown, stand_in
from .plain import advice, dump, visible

#: error: the job fails; warning: it may; GitLab knows info, minor, major, critical and blocker.
_SEVERITIES = {Severity.ERROR: "critical", Severity.WARNING: "major", Severity.INFO: "info"}


def render(report: Report, style: Style = Style()) -> str:
    """A JSON array, empty where nothing was found."""
    found = shown(report)
    base = repository()
    return dump([_issue(finding, mark, report, base) for finding, mark in zip(found, fingerprints(found), strict=True)])


def _issue(finding: Finding, mark: str, report: Report, base: Repository) -> dict[str, Any]:
    where = finding.where
    path = base.place(where.path or "").path if has_file(where) else stand_in(report)
    begin = (line_of(where) if has_file(where) else None) or 1
    lines = {"begin": begin}
    if has_file(where) and where.cell is None and where.end_line is not None and where.end_line >= begin:
        lines["end"] = where.end_line
    message = visible(finding.message).replace("\n", " ")
    return {
        "type": "issue",
        "check_name": finding.code,
        "description": f"{finding.code} {finding.name}: {message}{context(where)}",
        "content": {"body": advice(finding)},
        "categories": ["Bug Risk"],
        "severity": _SEVERITIES[finding.severity],
        "fingerprint": mark,
        "location": {"path": path, "lines": lines},
    }
