"""The root-cause summary of a log: what happened first, the failed rank, the consequences, and the fix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from distcheck.core.model import Finding, Report, Severity
from distcheck.reporters import rank_grid
from distcheck.reporters.locations import story_fix
from distcheck.reporters.log_summary import head, lead_of, nothing, ranks_in_words, who

from . import findings
from .parts import badge, code_link, definitions, folded, lines, marked_table, rank_table, table, text


def story(report: Report) -> Iterator[str]:
    """Yield the root-cause summary of a log."""
    summary = report.story
    yield '<section aria-labelledby="story"><h2 id="story">What happened</h2>'
    if summary["outcome"] == "clean":
        yield f"<p>{text(nothing(summary))}.</p>"
    else:
        lead = lead_of(report)
        yield from _first(summary, lead)
        if lead is not None:
            yield from rank_table(rank_grid.of_finding(lead, report))
    if summary.get("evidence"):
        yield from _events("Evidence", summary["evidence"])
    yield from _sources(summary["sources"])
    if summary.get("events"):
        body = "".join(_events("In the order of the text", summary["events"]))
        yield folded(f"Every event ({len(summary['events']):,})", body)
    yield "</section>"


def _first(summary: Mapping[str, Any], lead: Finding | None) -> Iterator[str]:
    # why it happened is the headline of the page
    word, title = head(summary, lead)
    error = lead is None or lead.severity is Severity.ERROR
    kind = "error" if error and summary["code"] is not None else "warning"
    if summary["code"] is not None:
        shown = f'{code_link(summary["code"])} <span class="name">{text(summary["name"])}</span>'
    else:
        shown = f'<span class="name">{text(title)}</span>'
    first = summary["first"]
    # the lead is the first of the findings, and others count on from it
    identifier = "" if lead is None else ' id="finding-1"'
    yield f'<article class="finding {kind}"{identifier}>'
    yield f'<h3 class="title">{badge(word, kind)} {shown} <span class="place">{text(_place(first))}</span></h3>'
    yield definitions(_facts(summary))
    yield from findings.fix(story_fix(summary))
    if lead is not None:
        yield from findings.details(lead)
    yield "</article>"


def _facts(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    first = summary["first"]
    yield "who", text(who(first))
    yield "what", f'<pre class="quote">{lines(str(first["text"]))}</pre>'
    failed_rank = who(summary["guilty"]) if summary["guilty"] else ""
    if failed_rank and failed_rank != who(first):
        yield "failed rank", text(failed_rank)
    if first["time"]:
        yield "when", text(_time(first))
    if summary.get("place"):
        yield "in the code", text(summary["place"])
    if summary["led_to"]:
        yield "led to", "<br>".join(map(text, summary["led_to"]))
    if summary["silent_ranks"]:
        yield "silent", text(f"{ranks_in_words(summary['silent_ranks'])} wrote nothing that is in this text")
    if summary["dropped_events"]:
        yield "dropped", text(f"{summary['dropped_events']:,} events more than are kept")


def _place(event: Mapping[str, Any]) -> str:
    return f"{event['path']}:{event['line']}"


def _time(event: Mapping[str, Any]) -> str:
    return str(event["time"] or "").replace("T", " ")


def _events(caption: str, events: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A row for each line: where, who, when, what."""
    timed = any(event["time"] for event in events)
    rows = []
    for event in events:
        shown_text = lines(str(event["text"]))
        if event["repeated"]:
            shown_text += f'\n<span class="soft">(and {event["repeated"]:,} times more)</span>'
        rows.append(
            (
                text(_place(event)),
                text(who(event)),
                *([text(_time(event))] if timed else []),
                f'<pre class="quote">{shown_text}</pre>',
            )
        )
    heads = ("line", "who", *(["when"] if timed else []), "text")
    yield from marked_table(caption, heads, rows, flush_left=range(len(heads)))


def _sources(sources: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Which files were read; what could not be read is never folded away."""
    odd = [source for source in sources if source["problem"] or source["notes"]]
    if odd:
        yield '<p class="label">About what was read</p><ul>'
        for source in odd:
            shown_text = "; ".join([*([source["problem"]] if source["problem"] else []), *source["notes"]])
            yield f"<li>{text(source['path'])}: {text(shown_text)}</li>"
        yield "</ul>"
    if len(sources) > 1:
        rows = [(source["path"], f"{source['lines']:,}", f"{source['bytes']:,}") for source in sources]
        yield folded(
            f"Files read ({len(sources):,})", "".join(table("What was read", ("file", "lines", "bytes"), rows))
        )
