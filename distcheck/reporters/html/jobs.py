"""Where the ranks of jobs stand: equal stacks once, those that differ from the others first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from distcheck.core.model import Report
from distcheck.reporters import rank_grid, ranks

from .parts import folded, lines, rank_table, section, text

#: Groups that are shown at once; the others are folded.
_OPEN = 4


def jobs(report: Report) -> Iterator[str]:
    """Each job with the stacks of its ranks."""
    if not report.subject["jobs"]:
        return
    yield from section("ranks", "State of the ranks", _jobs(report))


def _jobs(report: Report) -> Iterator[str]:
    for job in report.subject["jobs"]:
        yield f"<p>{text(ranks.head(job))}</p>"
        grid = rank_grid.of_job(job)
        yield from rank_table(grid)
        for number, (group, letter) in enumerate(rank_grid.marked(job["stacks"])):
            name = f"{letter} {ranks.who(group)}" if grid else ranks.who(group)
            summary = f"<strong>{text(name.strip())}</strong> {text(group['doing'])}"
            yield folded(summary, _body(group, job), opened=number < _OPEN)


def _body(group: Mapping[str, Any], job: Mapping[str, Any]) -> str:
    named = "<br>".join(map(text, ranks.processes(group, job)))
    stack = "\n".join(line for line, _ in ranks.frames(group))
    return f'<p class="soft">{named}</p>' + (f'<pre class="source">{lines(stack)}</pre>' if stack else "")
