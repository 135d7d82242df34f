"""What the output of a rank that failed means: findings of ``distcheck log``, at the line that raised."""

from __future__ import annotations

from distcheck.core.model import Finding, Severity, rank_ranges
from distcheck.rules import Selection
from distcheck.runtime.coordination.locations import split_place


def findings_of_failure(
    text: str, place: str, ranks: tuple[int, ...], raised: str, selection: Selection
) -> list[Finding]:
    """Return the findings above info; empty if no rule matches, because the failure may have nothing to do with the
    launch.

    :param text: what the rank printed, or its traceback
    :param place: ``train.py:33``, where it raised
    :param ranks: that failed in this way
    :param raised: the last line of the exception
    """
    from distcheck.checks.logs.diagnose import diagnose, timeline_of
    from distcheck.checks.logs.model import LogSource
    from distcheck.checks.logs.reading import SourceReader, matcher_of, signatures

    reader = SourceReader(LogSource(f"rank{ranks[0]}.log"), matcher_of(signatures()))
    reader.feed(text.encode())
    report = diagnose(timeline_of([reader.reading()]), selection=selection)
    path, line = split_place(place)
    found = []
    for finding in report.findings:
        if finding.severity is Severity.INFO or finding.code.startswith("DC9"):
            continue
        where = finding.where._replace(
            path=path, line=line, column=None, end_line=None, host=None,
            rank=ranks[0] if len(ranks) == 1 else None,
            ranks=rank_ranges(ranks) if len(ranks) > 1 else None,
        )  # fmt: skip
        found.append(finding._replace(where=where, evidence={**finding.evidence, "raised": raised}))
    return found
