"""Annotations of GitHub Actions: ``::error title=…::message``, errors first, escaped; what was measured last."""

from __future__ import annotations

from distcheck.core.model import Finding, Report, Severity

from . import Style, escape, sentence
from .locations import UNDECIDED, Repository, context, has_file, repository, shown

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def render(report: Report, style: Style = Style()) -> str:
    """One workflow command a finding, and a notice with the sentence of the smoke test."""
    base = repository()
    found = "".join(_annotation(finding, base) + "\n" for finding in shown(report))
    if text := sentence(report):
        found += f"::notice title={_property(f'distcheck {report.command}')}::{_data(text)}\n"
    return found


def _annotation(finding: Finding, base: Repository) -> str:
    where = finding.where
    properties: dict[str, object] = {}
    if has_file(where):
        properties["file"] = base.place(where.path or "").path
        # the lines of a cell are not those of the notebook's file
        if where.cell is None:
            # GitHub takes columns of one line only
            one_line = where.end_line in (None, where.line)
            properties |= {"line": where.line, "col": where.column, "endLine": where.end_line}
            properties["endColumn"] = where.end_column if one_line else None
    properties["title"] = finding.code if finding.code == UNDECIDED else f"{finding.code} {finding.name}"
    listed = ",".join(f"{name}={_property(value)}" for name, value in properties.items() if value is not None)
    message = f"{finding.message}{context(where)}\nfix: {finding.fix.text}"
    if finding.fix.command:
        message += f"\n{finding.fix.command}"
    return f"::{_LEVELS[finding.severity]} {listed}::{_data(message)}"


def _data(value: object) -> str:
    """Escaped as GitHub's toolkit does for the text of a command; other control characters are made visible."""
    return "%0A".join(escape(line).replace("%", "%25") for line in str(value).split("\n"))


def _property(value: object) -> str:
    """Escaped as GitHub's toolkit does for a property."""
    return _data(value).replace(":", "%3A").replace(",", "%2C")
