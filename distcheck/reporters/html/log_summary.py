"""The story of a log as the first part of a page: what happened first, who to look at, what it led to, what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from distcheck.core.model import Finding, Report, Severity
from distcheck.reporters.locations import story_fix
from distcheck.reporters.log_summary import head, lead_of, nothing, ranks_in_words, who

from . import findings
from .parts import badge, code_link, definitions, folded, lines, marked_table, table, text


def story(report: Report) -> Iterator[str]:
    """What the text of a job tells."""
    told = report.story
    yield '<section aria-labelledby="story"><h2 id="story">What happened</h2>'
    if told["outcome"] == "clean":
        yield f"<p>{text(nothing(told))}.</p>"
    else:
        yield from _first(told, lead_of(report))
    if told.get("evidence"):
        yield from _events("The lines that tell it", told["evidence"])
    yield from _sources(told["sources"])
    if told.get("events"):
        body = "".join(_events("In the order of the text", told["events"]))
        yield folded(f"Every event ({len(told['events']):,})", body)
    yield "</section>"


def _first(told: Mapping[str, Any], lead: Finding | None) -> Iterator[str]:
    # why it happened is the headline of the page
    word, title = head(told, lead)
    error = lead is None or lead.severity is Severity.ERROR
    kind = "error" if error and told["code"] is not None else "warning"
    if told["code"] is not None:
        shown = f'{code_link(told["code"])} <span class="name">{text(told["name"])}</span>'
    else:
        shown = f'<span class="name">{text(title)}</span>'
    first = told["first"]
    # the lead is the first of the findings, and others count on from it
    identifier = "" if lead is None else ' id="finding-1"'
    yield f'<article class="finding {kind}"{identifier}>'
    yield f'<h3 class="title">{badge(word, kind)} {shown} <span class="place">{text(_place(first))}</span></h3>'
    yield definitions(_facts(told))
    yield from findings.fix(story_fix(told))
    if lead is not None:
        yield from findings.beside(lead)
    yield "</article>"


def _facts(told: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    first = told["first"]
    yield "who", text(who(first))
    yield "what", f'<pre class="quote">{lines(str(first["text"]))}</pre>'
    guilty = who(told["guilty"]) if told["guilty"] else ""
    if guilty and guilty != who(first):
        yield "to blame", text(guilty)
    if first["time"]:
        yield "when", text(_time(first))
    if told.get("place"):
        yield "in the code", text(told["place"])
    if told["led_to"]:
        yield "led to", "<br>".join(map(text, told["led_to"]))
    if told["silent_ranks"]:
        yield "silent", text(f"{ranks_in_words(told['silent_ranks'])} wrote nothing that is in this text")
    if told["dropped_events"]:
        yield "left out", text(f"{told['dropped_events']:,} events more than are kept")


def _place(event: Mapping[str, Any]) -> str:
    return f"{event['path']}:{event['line']}"


def _time(event: Mapping[str, Any]) -> str:
    return str(event["time"] or "").replace("T", " ")


def _events(caption: str, events: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A row for each line: where, who, when, what."""
    timed = any(event["time"] for event in events)
    rows = []
    for event in events:
        said = lines(str(event["text"]))
        if event["repeated"]:
            said += f'\n<span class="soft">(and {event["repeated"]:,} times more)</span>'
        rows.append(
            (
                text(_place(event)),
                text(who(event)),
                *([text(_time(event))] if timed else []),
                f'<pre class="quote">{said}</pre>',
            )
        )
    heads = ("line", "who", *(["when"] if timed else []), "what it says")
    yield from marked_table(caption, heads, rows, flush_left=range(len(heads)))


def _sources(sources: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Which files were read; what could not be read is never folded away."""
    odd = [source for source in sources if source["problem"] or source["notes"]]
    if odd:
        yield '<p class="label">About what was read</p><ul>'
        for source in odd:
            said = "; ".join([*([source["problem"]] if source["problem"] else []), *source["notes"]])
            yield f"<li>{text(source['path'])}: {text(said)}</li>"
        yield "</ul>"
    if len(sources) > 1:
        rows = [(source["path"], f"{source['lines']:,}", f"{source['bytes']:,}") for source in sources]
        yield folded(
            f"Files read ({len(sources):,})", "".join(table("What was read", ("file", "lines", "bytes"), rows))
        )
