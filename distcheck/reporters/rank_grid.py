"""A small grid of the ranks of a job by host, in which a finding marks its ranks and a group of stacks has a letter.

``ranks 3,11,19`` does not show that each host has one of them, and the grid does. Only small jobs on several hosts have
a grid. Ranges name the ranks of other jobs.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from distcheck.core.model import Finding, Report, expand_ranges

from . import Style, escape
from .text_parts import cut, paint

#: Jobs with fewer ranks need no grid, and those with more would fill the screen.
_LEAST, _MOST = 4, 64
#: Ranks in one line of text; most hosts have 8 GPUs.
_ACROSS = 8
#: Columns of the longest name of a host.
_HOST = 32
#: The mark of the ranks of a finding.
AFFECTED = "*"


class Row(NamedTuple):
    """A host and its ranks, each with its mark; the mark is empty for a rank that a finding does not name."""

    host: str
    ranks: tuple[tuple[int, str], ...]


def of_finding(finding: Finding, report: Report) -> tuple[Row, ...]:
    """Return the ranks of the job with those of a finding marked; empty if the message or another grid shows it."""
    hosts = (
        {}
        if report.subject.get("jobs")
        else {
            rank: str(part["host"])
            for part in report.subject.get("placement", ())
            for rank in expand_ranges(part["ranks"], below=_MOST + 1)
        }
    )
    marked = expand_ranges(finding.where.ranks or "", below=_MOST + 1)
    if len(marked) < 2 or not hosts.keys() >= set(marked):
        return ()
    return _rows(hosts, dict.fromkeys(marked, AFFECTED))


def of_job(job: Mapping[str, Any]) -> tuple[Row, ...]:
    """Return the ranks of a job with the letters of their groups; empty if one host, or one group, shows as much."""
    hosts = {item["rank"]: item["host"] for item in job["ranks"]}
    return _rows(hosts, {rank: mark for group, mark in marked(job["stacks"]) for rank in group["members"]})


def marked(groups: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield each group with its letter: A to Z, then none."""
    letters = iter(string.ascii_uppercase)
    return ((group, next(letters, "")) for group in groups)


def _rows(hosts: Mapping[int, str], marks: Mapping[int, str]) -> tuple[Row, ...]:
    kinds = {marks.get(rank, "") for rank in hosts}
    if not _LEAST <= len(hosts) <= _MOST or len(kinds) < 2 or len(set(hosts.values())) < 2 or "" in hosts.values():
        return ()
    rows: dict[str, list[tuple[int, str]]] = {}
    for rank in sorted(hosts):
        rows.setdefault(hosts[rank], []).append((rank, marks.get(rank, "")))
    return tuple(Row(host, tuple(ranks)) for host, ranks in rows.items())


def lines(rows: Sequence[Row], style: Style) -> Iterator[str]:
    """Yield the grid as text below a finding or above the groups of a job: nothing without rows."""
    if not rows:
        return
    shown = [(cut(escape(row.host), _HOST), row.ranks) for row in rows]
    width = max(len(host) for host, _ in shown)
    digits = max(len(str(rank)) for _, ranks in shown for rank, _ in ranks)
    yield f"  {title(rows)}:"
    for host, ranks in shown:
        for start in range(0, len(ranks), _ACROSS):
            cells = "".join(_cell(rank, mark, digits, style) for rank, mark in ranks[start : start + _ACROSS])
            yield f"    {host if start == 0 else '':{width}} {cells}".rstrip()


def title(rows: Sequence[Row]) -> str:
    """Return what the grid shows."""
    affected = any(mark == AFFECTED for row in rows for _, mark in row.ranks)
    return f"ranks by host ({AFFECTED} affected)" if affected else "ranks by host, with the letter of their group"


def _cell(rank: int, mark: str, digits: int, style: Style) -> str:
    text = f"{rank:>{digits}}{mark or ' '}"
    return f" {paint(text, '33;1', style) if mark in (AFFECTED, 'A') else text}"
