"""Where the ranks of a job are, as text: stacks that are equal once, those that differ from the others first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..model import Report
from . import Style, escape
from .full import paint, wrapped

#: Groups of ranks that are shown; those that most ranks are in stand last, and one of them says enough.
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
        for group in shown:
            yield from _group(group, job, style)
        if len(shown) < len(groups):
            yield f"  and {len(groups) - len(shown)} groups more; -v shows them"


def head(job: Mapping[str, Any]) -> str:
    """``torchrun 08d0: 4 of 8 ranks, on gpu01; two looks, 2 s apart``."""
    here = len(job["ranks"])
    size = job["world_size"]
    ranks = f"{here} rank{'s' * (here != 1)}" if here == size else f"{here} of {size} ranks"
    numbered = ", numbered by their start" if job["guessed"] else ""
    return f"{job['job']}: {ranks}{numbered}, on {job['hosts']}; two looks, {job['interval_s']:.1f} s apart"


def _group(group: Mapping[str, Any], job: Mapping[str, Any], style: Style) -> Iterator[str]:
    color = "33;1" if group is job["stacks"][0] and len(job["stacks"]) > 1 else "1"
    who = f"{'ranks' if ',' in group['ranks'] or '-' in group['ranks'] else 'rank'} {group['ranks']}"
    yield f"  {paint(who, color, style)} {escape(group['doing'])}"
    members = [item for item in job["ranks"] if item["rank"] in group["members"]]
    for item in members[: None if style.verbose else _NAMED]:
        parts = [f"process {item['pid']}" if item["pid"] else "no process", item["host"], item["gpu"]]
        yield "    " + escape(", ".join(part for part in parts if part))
    if not style.verbose and len(members) > _NAMED:
        yield f"    and {len(members) - _NAMED} more"
    frames = [frame for frame in group["frames"] if style.verbose or frame["shown"]]
    width = max((len(frame["function"][:_FUNCTION]) for frame in frames), default=0)
    for frame in frames:
        text = f"      {frame['function'][:_FUNCTION]:{width}}  {frame['path']}:{frame['line']}"
        yield escape(text) if frame["own"] else paint(escape(text), "2", style)
