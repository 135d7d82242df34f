"""The text of ``distcheck pickle`` on files: a line for each file with its findings below, worst first, and a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from distcheck.core.model import Finding, Report, Severity, grouped_pairs

from . import Style, escape
from .text_parts import closing_lines, finding_lines, first_line, info_lines, not_checked_lines, paint, wrapped

#: Files up to which each is named; of more, those without findings are counted only (all with ``-v``).
EACH = 20
#: Files that a row of the table names.
_NAMED = 3
_COLORS = {"dangerous": "31", "malformed": "31", "incomplete": "35", "needs-allow-listing": "33", "safe": "32"}
WORDS = {
    "dangerous": "dangerous",
    "malformed": "malformed",
    "incomplete": "not read completely",
    "needs-allow-listing": "needs allow-listing",
    "safe": "safe",
}


def render(report: Report, style: Style = Style()) -> str:
    """The report as text for a terminal."""
    return "\n".join(_lines(report, style)) + "\n"


def _lines(report: Report, style: Style) -> Iterator[str]:
    files: list[Mapping[str, Any]] = list(report.subject["verdicts"])
    if style.quiet:
        yield _in_a_line(files, style)
        return
    yield from wrapped(first_line(report), style.width, "", "  ")
    groups, others = _by_file(report, files)
    many = len(files) > EACH
    apart = True
    for file in files:
        found = groups.get(file["path"], [])
        if many and not style.verbose and not any(finding.severity > Severity.INFO for finding in found):
            continue
        # files of which there is nothing more to report stand below each other
        if apart or found:
            yield ""
        apart = bool(found)
        yield from _file(file, found, style)
        for finding in found:
            yield from _finding(finding, style, brief=many and not style.verbose)
    for finding in others:
        yield ""
        yield from finding_lines(finding, style)
    if len(files) > 1:
        yield ""
        yield from _table(files, style)
    yield from not_checked_lines(report, style)
    yield from closing_lines(report, style)


def _in_a_line(files: list[Mapping[str, Any]], style: Style) -> str:
    """All that ``-q`` prints."""
    worst = files[0]["verdict"] if files else "safe"
    return paint(escape(in_short(files)), _COLORS[worst], style)


def in_short(files: Sequence[Mapping[str, Any]]) -> str:
    """The verdict of one file, or how many files have which."""
    if len(files) == 1:
        return f"{files[0]['path']}: {files[0]['sentence']}"
    numbers = Counter(file["verdict"] for file in files)
    return ", ".join(f"{number:,} {WORDS[verdict]}" for verdict, number in numbers.items()) or (
        "no file that holds a pickle"
    )


def _by_file(report: Report, files: list[Mapping[str, Any]]) -> tuple[dict[str, list[Finding]], list[Finding]]:
    """The findings of each file (those of the parts of a folder under the folder), and those of none."""
    known = {file["path"] for file in files}
    groups: dict[str, list[Finding]] = {}
    others: list[Finding] = []
    for finding in report.findings:
        path = finding.where.path or ""
        while path and path not in known:
            path = path.rpartition("/")[0]
        if path in known:
            groups.setdefault(path, []).append(finding)
        elif "." in known and finding.where.path:
            groups.setdefault(".", []).append(finding)
        else:
            others.append(finding)
    return groups, others


def _file(file: Mapping[str, Any], found: list[Finding], style: Style) -> Iterator[str]:
    """``model.pt: torch zip, loads with weights_only=True``."""
    sentence = str(file["sentence"])
    if any(finding.severity is Severity.ERROR for finding in found) and file["verdict"] in ("dangerous", "malformed"):
        sentence = sentence.partition(":")[0]  # the reason follows
    first, *rest = wrapped(f"{file['path']}: {file['format']}, {sentence}", style.width, "", "  ")
    agrees = file.get("confirmation") == ""
    yield paint(first, _COLORS[file["verdict"]] + ";1", style)
    yield from rest
    if agrees:
        yield "  torch.load agrees"
    elif file.get("confirmation"):
        yield from wrapped(f"torch.load: {file['confirmation']}", style.width, "  ", "    ")


def _finding(finding: Finding, style: Style, *, brief: bool) -> Iterator[str]:
    if brief and finding.severity is Severity.INFO:
        yield from info_lines(finding, style)
    else:
        yield from finding_lines(finding, style)


def _table(files: list[Mapping[str, Any]], style: Style) -> Iterator[str]:
    """How many files have which verdict, and the first few of each; files come worst first."""
    groups = grouped_pairs((file["verdict"], file["path"]) for file in files)
    wide = max(len(WORDS[verdict]) for verdict in groups)
    digits = max(len(f"{len(paths):,}") for paths in groups.values())
    for verdict, paths in groups.items():
        head = f"{WORDS[verdict]:<{wide}}  {len(paths):>{digits},}"
        names = ""
        if verdict != "safe":
            more = f" and {len(paths) - _NAMED:,} more" if len(paths) > _NAMED else ""
            names = f"  {', '.join(paths[:_NAMED])}{more}"
        first, *rest = wrapped(escape(head + names), style.width, "", " " * (wide + digits + 4))
        # wrapping takes runs of blanks as they are only inside of a line
        yield paint(first, _COLORS[verdict], style)
        yield from rest
