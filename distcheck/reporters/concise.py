"""One line a finding: ``path:line:col: CODE message``, or the host where there is no file; what was measured last."""

from __future__ import annotations

from ..model import Finding, Report
from . import Style, escape, sentence


def render(report: Report, style: Style = Style()) -> str:
    """One line a finding; nothing at all where there is none and nothing was measured."""
    host = str(report.subject.get("host") or "localhost")
    found = "".join(
        f"{place(finding, host)}: {finding.code} {finding.severity.word}: {escape(finding.message)}\n"
        for finding in report.findings
    )
    return found + (f"{escape(text)}\n" if (text := sentence(report)) else "")


def place(finding: Finding, host: str) -> str:
    """``path:line:col``, else ``host`` with the rank, GPU or variable that is concerned."""
    where = finding.where
    if where.path is not None:
        return escape(":".join(str(part) for part in (where.path, where.line, where.column) if part is not None))
    parts = [where.host or host]
    if where.ranks is not None or where.rank is not None:
        parts.append(f"rank {where.rank if where.ranks is None else where.ranks}")
    if where.gpu is not None:
        parts.append(f"GPU {where.gpu}")
    parts.extend(part for part in (where.variable, where.object) if part is not None)
    return escape(":".join(parts))
