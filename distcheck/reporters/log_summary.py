"""The text report of a log: the root-cause summary, its evidence, then other findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from distcheck.core.model import Finding, Report, Severity

from . import Style, escape, rank_grid
from .text_parts import (
    BY,
    PLACES,
    closing_lines,
    command_lines,
    finding_lines,
    first_line,
    info_lines,
    not_checked_lines,
    paint,
    wrapped,
)

#: Most lines of the summary. The evidence holds what is cut.
_LONGEST = 15
_LABEL = 8
#: Columns for the location in a line of evidence.
_PLACE = 34


def render(report: Report, style: Style) -> str:
    """Return the root-cause summary, the evidence and the other findings as text."""
    if style.quiet:
        return _one_line(report, style) + "\n"
    return "\n".join(_lines(report, style)) + "\n"


def _lines(report: Report, style: Style) -> Iterator[str]:
    story = report.story
    yield from wrapped(first_line(report), style.width, "", "  ")
    yield ""
    yield from lines_of(report, style)
    if story.get("evidence"):
        yield ""
        yield paint("evidence", "1", style)
        yield from _evidence(story["evidence"], style)
    lead = lead_of(report)
    if lead is not None and (grid := rank_grid.of_finding(lead, report)):
        yield ""
        yield from rank_grid.lines(grid, style)
    if story.get("events"):
        yield ""
        yield paint("every event", "1", style)
        yield from _evidence(story["events"], style)
    others = [finding for finding in report.findings if finding is not lead]
    loud = [finding for finding in others if finding.severity > Severity.INFO]
    quiet = [finding for finding in others if finding.severity is Severity.INFO]
    if loud:
        yield ""
        yield paint("also", "1", style)
        for finding in loud:
            yield from finding_lines(finding, style)
            yield from rank_grid.lines(rank_grid.of_finding(finding, report), style)
    if quiet:
        yield ""
        for finding in quiet:
            yield from info_lines(finding, style)
    if style.verbose or story["outcome"] == "clean":
        yield from not_checked_lines(report, style)
    yield from closing_lines(report, style)


def lines_of(report: Report, style: Style) -> Iterator[str]:
    """The root-cause summary, at most _LONGEST lines: what happened first, where, why, what it led to, what to type."""
    story = report.story
    if story["outcome"] == "clean":
        yield f"{nothing(story)}."
        return
    fix = list(_fix(story["fix"], style))
    for most in _SHORTER:
        lines = list(_story(report, style, most))
        if len(lines) + len(fix) <= _LONGEST:
            break
    yield from lines
    # what to type is never cut: a fix that does not fit in goes on behind the story
    yield from fix[: _LONGEST - len(lines)]
    if rest := fix[_LONGEST - len(lines) :]:
        yield ""
        yield from rest


def nothing(story: Mapping[str, Any]) -> str:
    """Of a text without a failure; what could not be read may hold one, at its end above all."""
    unread = [source for source in story["sources"] if source["problem"]]
    if not unread:
        return "No failure is in this text"
    if any(source["lines"] for source in story["sources"]):
        return "No failure is in what could be read"
    return "Nothing could be read"


def _story(report: Report, style: Style, most: _LineLimits) -> Iterator[str]:
    story = report.story
    lead = lead_of(report)
    first = story["first"]
    title = head(story, lead)
    color = "31;1" if lead is None or lead.severity is Severity.ERROR else "33;1"
    yield f"{paint(title[0], color, style)} {title[1]}"
    yield from _labelled("what", f"{who(first)}: {first['text']}", style, most=most.what)
    where = [f"{first['path']}:{first['line']}"]
    failed = who(story["guilty"]) if story["guilty"] else ""
    if failed and failed != who(first):
        where.append(f"failed rank: {failed}")
    if first["time"]:
        where.append(f"at {first['time'].replace('T', ' ')}")
    if story.get("place"):
        where.append(story["place"])
    yield from _labelled("where", ", ".join(where), style, most=most.where)
    yield from _labelled("why", str(story["why"]), style, most=most.why)
    if story["led_to"]:
        yield from _labelled("led to", "; ".join(story["led_to"]), style, most=most.led_to)
    if story["silent_ranks"]:
        text = f"{ranks_in_words(story['silent_ranks'])} wrote nothing that is in this text"
        yield from _labelled("silent", text, style, most=1)


class _LineLimits(NamedTuple):
    """Lines that each part of the story may take."""

    what: int
    where: int
    why: int
    led_to: int


#: Tried in this order, until the fix fits in as well.
_SHORTER = (
    _LineLimits(3, 2, 4, 3),
    _LineLimits(2, 2, 4, 2),
    _LineLimits(2, 2, 3, 1),
    _LineLimits(1, 1, 3, 1),
    _LineLimits(1, 1, 2, 1),
)


def ranks_in_words(ranges: str) -> str:
    """``rank 3``, ``ranks 1-2``."""
    return f"rank {ranges}" if ranges.isdecimal() else f"ranks {ranges}"


def head(story: Mapping[str, Any], lead: Finding | None) -> tuple[str, str]:
    """A word for how sure it is, and what it is about."""
    if story["code"] is not None:
        return (lead.severity.word if lead is not None else "error"), f"{story['code']} {story['name']}"
    if story["outcome"] == "consequences":
        return "undecided", "the text holds only what others died of"
    return "undecided", story["name"] or "a failure that no rule names"


def _labelled(label: str, text: str, style: Style, *, most: int) -> Iterator[str]:
    lines = list(wrapped(text, style.width, f"{label:{_LABEL}}", " " * _LABEL))
    if len(lines) > most:
        lines = lines[:most]
        lines[-1] = lines[-1][: style.width - 2] + " …"
    for number, line in enumerate(lines):
        yield paint(line[:_LABEL], "1", style) + line[_LABEL:] if number == 0 else line


def _fix(fix: Mapping[str, Any], style: Style) -> Iterator[str]:
    place = f"({PLACES[fix['where']]}{BY[fix['by']]}) "
    yield from _labelled("fix", place + fix["text"], style, most=99)
    yield from command_lines(fix["command"], style, _LABEL + 2)


def who(item: Mapping[str, Any]) -> str:
    """``rank 3 on node01``, as far as it is known."""
    if item.get("ranks") is not None:
        named = ranks_in_words(item["ranks"])
    elif item.get("rank") is not None:
        named = f"rank {item['rank']}"
    elif item.get("local_rank") is not None:
        named = f"local rank {item['local_rank']}"
    elif item.get("task") is not None:
        named = f"task {item['task']}"
    elif item.get("pid") is not None:
        named = f"process {item['pid']}"
    else:
        named = ""
    host = item.get("host")
    if not named:
        return str(host) if host else "a process"
    return f"{named} on {host}" if host else named


def _evidence(events: list[Mapping[str, Any]], style: Style) -> Iterator[str]:
    """A line for each: where, who, what."""
    places = [escape(f"{event['path']}:{event['line']}") for event in events]
    width = min(max(map(len, places), default=0), _PLACE)
    for place, event in zip(places, events, strict=True):
        text = f"{who(event)}: {event['text'].splitlines()[0] if event['text'] else ''}"
        if event["repeated"]:
            text += f"  (and {event['repeated']} times more)"
        shown = place if len(place) <= _PLACE else "…" + place[-_PLACE + 1 :]
        room = max(style.width - width - 4, 30)
        text = escape(text)
        yield f"  {shown:{width}}  {text if len(text) <= room else text[: room - 1] + '…'}"


def lead_of(report: Report) -> Finding | None:
    """Return the finding of the root cause, if its rule is selected."""
    code = report.story.get("code")
    first = report.findings[0] if report.findings else None
    return first if first is not None and first.code == code else None


def _one_line(report: Report, style: Style) -> str:
    story = report.story
    if story["outcome"] == "clean":
        text = nothing(story)
        return f"distcheck log: {text[0].lower()}{text[1:]}"
    named = f"{story['code']} {story['name']}: " if story["code"] else "undecided: "
    first = story["first"]
    text = f"{named}{story['why']} ({first['path']}:{first['line']})"
    return escape(f"distcheck log: {text}")
