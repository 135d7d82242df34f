"""Where the ranks of a job are, as text: stacks that are equal once, those that differ from the others first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from distcheck.core.model import Report

from . import Style, escape, rank_grid
from .text_parts import paint, wrapped

#: Groups of ranks that are shown; those that most ranks are in stand last, and one of them is enough.
_GROUPS = 8
#: Ranks of a group whose processes are named.
_NAMED = 4
#: Columns that functions may take.
_FUNCTION = 32


def lines(report: Report, style: Style) -> Iterator[str]:
    """Each job with the stacks of its ranks."""
    for job in report.subject.get("jobs", ()):
        yield ""
        yield from wrapped(head(job), style.width, "", "  ")
        groups = job["stacks"]
        shown = groups if style.verbose or len(groups) <= _GROUPS else [*groups[: _GROUPS - 1], groups[-1]]
        # all letters of the grid are explained below it
        grid = rank_grid.of_job(job) if len(shown) == len(groups) else ()
        yield from rank_grid.lines(grid, style)
        for group, letter in rank_grid.marked(shown):
            yield from _group(group, job, style, f"{letter}  " if grid and letter else "")
        if len(shown) < len(groups):
            yield f"  and {len(groups) - len(shown)} groups more; -v shows them"


def head(job: Mapping[str, Any]) -> str:
    """``torchrun 08d0: 4 of 8 ranks, on gpu01; two samples, 2 s apart``."""
    here = len(job["ranks"])
    size = job["world_size"]
    ranks = f"{here} rank{'s' * (here != 1)}" if here == size else f"{here} of {size} ranks"
    numbered = ", numbered by their start" if job["guessed"] else ""
    hosts = f", on {job['hosts']}" if job["hosts"] else ""
    return f"{job['job']}: {ranks}{numbered}{hosts}; {job['seen']}"


def who(group: Mapping[str, Any]) -> str:
    """``rank 3``, ``ranks 0-2,5``."""
    return f"{'rank' if len(group['members']) == 1 else 'ranks'} {group['ranks']}"


def processes(group: Mapping[str, Any], job: Mapping[str, Any]) -> list[str]:
    """``process 7590, gpu01, GPU 0 (100 % busy)``, one for each rank of a group that has any of it."""
    named = []
    for item in job["ranks"]:
        if item["rank"] in group["members"]:
            parts = [f"process {item['pid']}" if item["pid"] else "no process", item["host"], item["gpu"]]
            named.append(escape(", ".join(part for part in parts if part)))
    return named


def frames(group: Mapping[str, Any], *, everything: bool = False) -> list[tuple[str, bool]]:
    """The lines of a stack, innermost first, each with whether it is the user's own."""
    shown = [frame for frame in group["frames"] if everything or frame["shown"]]
    width = max((len(frame["function"][:_FUNCTION]) for frame in shown), default=0)
    return [
        (escape(f"{frame['function'][:_FUNCTION]:{width}}  {frame['path']}:{frame['line']}"), frame["own"])
        for frame in shown
    ]


def _group(group: Mapping[str, Any], job: Mapping[str, Any], style: Style, letter: str) -> Iterator[str]:
    color = "33;1" if group is job["stacks"][0] and len(job["stacks"]) > 1 else "1"
    yield f"  {letter}{paint(who(group), color, style)} {escape(group['doing'])}"
    named = processes(group, job)
    yield from (f"    {line}" for line in named[: None if style.verbose else _NAMED])
    if not style.verbose and len(named) > _NAMED:
        yield f"    and {len(named) - _NAMED} more"
    for line, own in frames(group, everything=style.verbose > 0):
        yield f"      {line}" if own else paint(f"      {line}", "2", style)
