"""The text that people read: what was checked, findings worst first, what was measured, what was not checked."""

from __future__ import annotations

from collections.abc import Iterator

from distcheck.core.model import Report, Severity

from . import Style, rank_grid
from .text_parts import (
    closing_lines,
    finding_lines,
    first_line,
    in_code,
    info_lines,
    last_lines,
    not_checked_lines,
    wrapped,
)


def render(report: Report, style: Style = Style()) -> str:
    """The report as text for a terminal or a bug report."""
    if style.quiet and "verdicts" not in report.subject and not report.story:
        return "\n".join(last_lines(report, style)) + "\n"
    if "merged_hosts" in report.subject and not style.verbose:
        from . import merged

        return merged.render(report, style)
    if "verdicts" in report.subject:
        from . import pickle_verdicts

        return pickle_verdicts.render(report, style)
    if report.story:
        from . import log_summary

        return log_summary.render(report, style)
    return "\n".join(_lines(report, style)) + "\n"


def _lines(report: Report, style: Style) -> Iterator[str]:
    yield from wrapped(first_line(report), style.width, "", "  ")
    loud = [finding for finding in report.findings if finding.severity > Severity.INFO or in_code(finding)]
    quiet = [finding for finding in report.findings if finding.severity is Severity.INFO and not in_code(finding)]
    for finding in loud:
        yield ""
        yield from finding_lines(finding, style)
        yield from rank_grid.lines(rank_grid.of_finding(finding, report), style)
    if quiet:
        yield ""
        for finding in quiet:
            yield from info_lines(finding, style)
    if report.measurements:
        from . import measurements

        yield from measurements.lines(report, style)
    if "jobs" in report.subject:
        from . import ranks

        yield from ranks.lines(report, style)
    yield from not_checked_lines(report, style)
    yield from closing_lines(report, style)
