"""One line a finding: ``path:line:col: CODE message``, or the host where there is no file; what was measured last.

Findings in source are sorted by path and line, and name no severity, as editors and other linters have it.
"""

from __future__ import annotations

from distcheck.core.model import Finding, Report

from . import Style, escape, inside, position, sentence, undecided


def render(report: Report, style: Style = Style()) -> str:
    """One line a finding; nothing at all where there is none and nothing was measured."""
    if report.command == "lint":
        return "".join(
            f"{escape(position(finding.where) or '-')}: {finding.code} {escape(finding.message)}\n"
            for finding in sorted(report.findings, key=_by_place)
        )
    if "object" in report.subject:
        # a location in an object is its path, on whatever host
        return "".join(
            f"{escape(finding.where.object or '-')}: "
            f"{finding.code} {finding.severity.word}: {escape(finding.message)}\n"
            for finding in report.findings
        )
    host = str(report.subject.get("host") or "localhost")
    found = "".join(
        f"{place(finding, host)}: {finding.code} {finding.severity.word}: {escape(finding.message)}{_inside(finding)}\n"
        for finding in report.findings
    )
    last = (sentence(report), undecided(report))
    return found + "".join(f"{escape(text)}\n" for text in last if text)


def place(finding: Finding, host: str) -> str:
    """``path:line:col``, else ``host`` with the rank, GPU or variable that is concerned."""
    where = finding.where
    if where.path is not None:
        return escape(position(where))
    parts = [where.host or host]
    if where.ranks is not None or where.rank is not None:
        parts.append(f"rank {where.rank if where.ranks is None else where.ranks}")
    if where.gpu is not None:
        parts.append(f"GPU {where.gpu}")
    parts.extend(part for part in (where.variable, where.object) if part is not None)
    return escape(":".join(parts))


def _inside(finding: Finding) -> str:
    """The location in a file without lines: behind the message, so that what comes before it is a path."""
    text = inside(finding.where)
    return f" ({escape(text.removeprefix(', '))})" if text else ""


def _by_place(finding: Finding) -> tuple[str, int, int, int, str]:
    where = finding.where
    return where.path or "", where.cell or 0, where.line or 0, where.column or 0, finding.code
