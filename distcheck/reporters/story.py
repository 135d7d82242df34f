"""The text about a log: the story in a few lines, then the lines that it rests on, then what else was found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..model import Finding, Report, Severity
from . import Style, escape
from .full import BY, PLACES, closing_lines, finding_lines, first_line, info_lines, not_checked_lines, paint, wrapped

#: Lines of the story at most; what is longer is cut, and stands in the evidence.
_LONGEST = 15
_LABEL = 8
#: Columns of a line of evidence that its place may take.
_PLACE = 34


def render(report: Report, style: Style) -> str:
    """The story, the evidence and the other findings as text."""
    if style.quiet:
        return _one_line(report, style) + "\n"
    return "\n".join(_lines(report, style)) + "\n"


def _lines(report: Report, style: Style) -> Iterator[str]:
    story = report.story
    yield from wrapped(first_line(report), style.width, "", "  ")
    yield ""
    yield from told(report, style)
    if story.get("evidence"):
        yield ""
        yield paint("evidence", "1", style)
        yield from _evidence(story["evidence"], style)
    if story.get("events"):
        yield ""
        yield paint("every event", "1", style)
        yield from _evidence(story["events"], style)
    lead = _lead(report)
    others = [finding for finding in report.findings if finding is not lead]
    loud = [finding for finding in others if finding.severity > Severity.INFO]
    quiet = [finding for finding in others if finding.severity is Severity.INFO]
    if loud:
        yield ""
        yield paint("also", "1", style)
        for finding in loud:
            yield from finding_lines(finding, style)
    if quiet:
        yield ""
        for finding in quiet:
            yield from info_lines(finding, style)
    if style.verbose or story["outcome"] == "clean":
        yield from not_checked_lines(report, style)
    yield from closing_lines(report, style)


def told(report: Report, style: Style) -> Iterator[str]:
    """The story, at most _LONGEST lines: what happened first, where, why, what it led to, what to type."""
    story = report.story
    if story["outcome"] == "clean":
        yield "No failure is in this text."
        return
    lines = list(_story(report, style))
    fix = list(_fix(story["fix"], style))
    room = _LONGEST - len(fix)
    if len(lines) > room > 0:
        lines = [*lines[: room - 1], f"{'':{_LABEL}}…"]
    yield from lines
    yield from fix


def _story(report: Report, style: Style) -> Iterator[str]:
    story = report.story
    lead = _lead(report)
    first = story["first"]
    head = _head(story, lead)
    color = "31;1" if lead is None or lead.severity is Severity.ERROR else "33;1"
    yield f"{paint(head[0], color, style)} {head[1]}"
    yield from _labelled("what", f"{_who(first)}: {first['text']}", style, most=3)
    where = [f"{first['path']}:{first['line']}", first["time"] and f"at {first['time'].replace('T', ' ')}"]
    where.append(story.get("place"))
    guilty = _who(story["guilty"]) if story["guilty"] else ""
    if guilty and guilty != _who(first):
        where.append(f"to blame: {guilty}")
    yield from _labelled("where", ", ".join(part for part in where if part), style, most=2)
    yield from _labelled("why", str(story["why"]), style, most=4)
    if story["led_to"]:
        yield from _labelled("led to", "; ".join(story["led_to"]), style, most=3)
    if story["silent_ranks"]:
        yield from _labelled(
            "silent", f"ranks {story['silent_ranks']} wrote nothing that is in this text", style, most=1
        )


def _head(story: Mapping[str, Any], lead: Finding | None) -> tuple[str, str]:
    if story["code"] is not None:
        return (lead.severity.word if lead is not None else "error"), f"{story['code']} {story['name']}"
    if story["outcome"] == "consequences":
        return "undecided", "the text holds only what others died of"
    return "undecided", "a failure that no rule names"


def _labelled(label: str, text: str, style: Style, *, most: int) -> Iterator[str]:
    lines = list(wrapped(text, style.width, f"{label:{_LABEL}}", " " * _LABEL))
    if len(lines) > most:
        lines = lines[:most]
        lines[-1] = lines[-1][: style.width - 2] + " …"
    for number, line in enumerate(lines):
        yield paint(line[:_LABEL], "1", style) + line[_LABEL:] if number == 0 else line


def _fix(fix: Mapping[str, Any], style: Style) -> Iterator[str]:
    place = f"({PLACES[fix['where']]}{BY[fix['by']]}) "
    yield from _labelled("fix", place + fix["text"], style, most=4)
    if fix["command"]:
        for line in str(fix["command"]).splitlines()[:3]:
            yield " " * (_LABEL + 2) + paint(escape(line), "1", style)


def _who(item: Mapping[str, Any]) -> str:
    """``rank 3 on node01``, as far as it is known."""
    if item.get("ranks") is not None:
        named = f"ranks {item['ranks']}"
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
    places = [f"{event['path']}:{event['line']}" for event in events]
    width = min(max(map(len, places), default=0), _PLACE)
    for place, event in zip(places, events, strict=True):
        text = f"{_who(event)}: {event['text'].splitlines()[0] if event['text'] else ''}"
        if event["repeated"]:
            text += f"  (and {event['repeated']} times more)"
        shown = place if len(place) <= _PLACE else "…" + place[-_PLACE + 1 :]
        room = max(style.width - width - 4, 30)
        yield f"  {shown:{width}}  {escape(text if len(text) <= room else text[: room - 1] + '…')}"


def _lead(report: Report) -> Finding | None:
    """The finding that is told, where its rule is selected."""
    code = report.story.get("code")
    first = report.findings[0] if report.findings else None
    return first if first is not None and first.code == code else None


def _one_line(report: Report, style: Style) -> str:
    story = report.story
    if story["outcome"] == "clean":
        return "distcheck log: no failure is in this text"
    named = f"{story['code']} {story['name']}: " if story["code"] else "undecided: "
    first = story["first"]
    text = f"{named}{story['why']} ({first['path']}:{first['line']})"
    return escape(f"distcheck log: {text}")
