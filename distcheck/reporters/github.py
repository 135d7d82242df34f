"""Annotations of GitHub Actions: ``::error title=…::message``, errors first, escaped; what was measured last."""

from __future__ import annotations

from ..model import Finding, Report, Severity
from . import Style, escape, inside, sentence, undecided
from .places import Repository, repository, words

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def render(report: Report, style: Style = Style()) -> str:
    """One workflow command a finding, and a notice with the sentence of the smoke test."""
    base = repository()
    found = "".join(_annotation(finding, base) + "\n" for finding in report.findings)
    if text := sentence(report):
        found += f"::notice title={_property(f'distcheck {report.command}')}::{_data(text)}\n"
    if undecided(report):
        first = report.story["first"]
        place = f"file={_property(base.place(first['path']).path)},line={first['line']},title=undecided"
        found = f"::error {place}::{_data(first['text'])}%0A{_data(report.story['why'])}\n" + found
    return found


def _annotation(finding: Finding, base: Repository) -> str:
    where = finding.where
    title = f"{finding.code} {finding.name}"
    path = None if where.path is None else base.place(where.path).path
    place = words(where) if path is None else inside(where).removeprefix(", ")
    message = f"{finding.message}{f' ({place})' if place else ''}\nfix: {finding.fix.text}"
    if where.cell is None:
        # GitHub takes columns of one line only
        one_line = where.end_line in (None, where.line)
        properties = {
            "file": path,
            "line": where.line,
            "col": where.column,
            "endLine": where.end_line,
            "endColumn": where.end_column if one_line else None,
            "title": title,
        }
    else:
        # the lines of a cell are not those of the notebook's file
        properties = {"file": path, "title": title}
        message = f"cell {where.cell}, line {where.line}: {message}"
    listed = ",".join(f"{name}={_property(value)}" for name, value in properties.items() if value is not None)
    if finding.fix.command:
        message += f"\n{finding.fix.command}"
    return f"::{_LEVELS[finding.severity]} {listed}::{_data(message)}"


def _data(value: object) -> str:
    """Escaped as GitHub's toolkit does for the text of a command; other control characters are made visible."""
    return "%0A".join(escape(line).replace("%", "%25") for line in str(value).split("\n"))


def _property(value: object) -> str:
    """Escaped as GitHub's toolkit does for a property."""
    return _data(value).replace(":", "%3A").replace(",", "%2C")
