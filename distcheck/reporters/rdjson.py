"""The diagnostic format of reviewdog, as one JSON object: comments in a review, with suggestions where there are edits.

Its columns count the bytes of UTF-8 and ours count characters, and a suggestion replaces one range. So the lines that
are meant are read again; where a file can't be read, or is no UTF-8, columns are omitted and nothing is suggested.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from distcheck.core.files import read_ordinary
from distcheck.core.model import Edit, Finding, Report, Severity, page_url

from . import Style, line_of, source_of
from .locations import UNDECIDED, context, has_file, shown, stand_in
from .plain import advice, dump, visible

_SEVERITIES = {Severity.ERROR: "ERROR", Severity.WARNING: "WARNING", Severity.INFO: "INFO"}
#: Bytes of a file that is read again at most: source and launch files are far shorter.
_LARGEST = 4 << 20
#: Lines that one suggestion may replace; what stands farther apart can't be shown in a review.
_FARTHEST = 20


def render(report: Report, style: Style = Style()) -> str:
    """A ``DiagnosticResult``."""
    sources = _Sources()
    whole: dict[str, Any] = {"source": {"name": "distcheck", "url": "https://distcheck.readthedocs.io/"}}
    found = shown(report)
    if found:
        whole["severity"] = _SEVERITIES[max(finding.severity for finding in found)]
    whole["diagnostics"] = [_diagnostic(finding, report, sources) for finding in found]
    return dump(whole)


def _diagnostic(finding: Finding, report: Report, sources: _Sources) -> dict[str, Any]:
    where = finding.where
    # seen from the working folder: reviewdog works the repository out by itself
    location: dict[str, Any] = {"path": visible(where.path or "") if has_file(where) else stand_in(report)}
    line = line_of(where)
    if has_file(where) and line is not None:
        location["range"] = _range(finding, line, sources)
    code = {"value": finding.code}
    if finding.code != UNDECIDED:
        code["url"] = page_url(finding.code)
    made: dict[str, Any] = {
        "message": f"{visible(finding.message)}{context(where)}\n{advice(finding)}",
        "location": location,
        "severity": _SEVERITIES[finding.severity],
        "code": code,
    }
    if suggestion := _suggestion(finding, sources):
        made["suggestions"] = [suggestion]
    return made


def _range(finding: Finding, line: int, sources: _Sources) -> dict[str, dict[str, int]]:
    """Both ends with their columns, or both without: then whole lines are meant."""
    where = finding.where
    ends = {"start": (line, where.column)}
    if where.end_line is not None:
        ends["end"] = (where.end_line, where.end_column)
    found: dict[str, dict[str, int]] = {}
    for name, (number, column) in ends.items():
        text = _source(finding) if number == line else None
        text = sources.line(where.path or "", number) if text is None else text
        if column is None or text is None:
            return {name: {"line": number} for name, (number, _) in ends.items()}
        found[name] = {"line": number, "column": _bytes(text, column)}
    return found


def _source(finding: Finding) -> str | None:
    """The first line of what is meant, as it was read when it was judged."""
    source = source_of(finding)
    return source if source is not None and _is_utf_8(source) else None


def _bytes(text: str, column: int) -> int:
    """A column in characters as a column in bytes of UTF-8; both count from 1."""
    return len(text[: column - 1].encode()) + 1


def _is_utf_8(text: str) -> bool:
    return text == text.encode("utf-8", "ignore").decode()


def _suggestion(finding: Finding, sources: _Sources) -> Mapping[str, Any] | None:
    """Return the edits of a fix as one range and its new text; None where that can't be given exactly."""
    edits = sorted(finding.fix.edits, key=lambda edit: (edit.line, edit.column))
    if not edits or {edit.path for edit in edits} != {finding.where.path}:
        return None
    first, last = edits[0], edits[-1]
    judged, now = _source(finding), sources.line(first.path, finding.where.line or 0)
    # standard input that was given the name of a file, or a file that has changed since
    if judged is not None and (now is None or now.strip() != judged.strip()):
        return None
    lines = {number: sources.line(first.path, number) for number in range(first.line, last.end_line + 1)}
    if last.end_line - first.line >= _FARTHEST or None in lines.values():
        return None
    text = _merged(edits, {number: line or "" for number, line in lines.items()})
    if text is None:
        return None
    start = {"line": first.line, "column": _bytes(lines[first.line] or "", first.column)}
    end = {"line": last.end_line, "column": _bytes(lines[last.end_line] or "", last.end_column)}
    return {"range": {"start": start, "end": end}, "text": text}


def _merged(edits: Sequence[Edit], lines: Mapping[int, str]) -> str | None:
    """Return the text from the first edit to the last with all of them done; None where two overlap."""
    parts = [edits[0].text]
    for before, edit in pairwise(edits):
        start, end = (before.end_line, before.end_column), (edit.line, edit.column)
        if start > end:
            return None
        between = [lines[number] for number in range(start[0], end[0] + 1)]
        # cut at the end first: both may be in one line
        between[-1] = between[-1][: end[1] - 1]
        between[0] = between[0][start[1] - 1 :]
        parts += ["\n".join(between), edit.text]
    text = "".join(parts)
    return text if _is_utf_8(text) else None


class _Sources:
    """The lines of files, each read once."""

    def __init__(self) -> None:
        self._files: dict[str, list[str]] = {}

    def line(self, path: str, number: int) -> str | None:
        """A line without its end; None where the file has none such, or can't be taken as UTF-8."""
        if path not in self._files:
            self._files[path] = _lines(path)
        lines = self._files[path]
        return lines[number - 1] if 1 <= number <= len(lines) else None


def _lines(path: str) -> list[str]:
    try:
        data = read_ordinary(path, _LARGEST)
    except (OSError, ValueError):
        return []
    # a mark at the beginning shifts the columns of the first line, and a lone carriage return the numbers of all
    if data.startswith(b"\xef\xbb\xbf") or b"\r" in data.replace(b"\r\n", b""):
        return []
    try:
        return data.decode("utf-8").replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError:
        return []
