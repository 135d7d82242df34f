"""The root-cause summary of a log as plain values: what happened first, where, why, its consequences, the fix."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from typing import Any

from distcheck.core.model import Fix, rank_ranges
from distcheck.rules.signatures import Kind

from .failed_rank import failed_node, failed_process
from .known_causes import KNOWN_CAUSES
from .launcher import keep_each_log
from .model import Event, Timeline, by_rank
from .ranking import Ranked, role_of

#: So many lines stand as evidence for one thing; ``--all`` shows every event.
_MOST_LINES = 6


def summarize(timeline: Timeline, ranked: Ranked, *, every_event: bool = False) -> dict[str, Any]:
    """Return the root-cause summary of a log, in the shape of the published schema (``story``)."""
    lead, first = ranked.lead, ranked.first
    story: dict[str, Any] = {
        "outcome": ranked.outcome,
        "sources": [_source(timeline, number) for number in range(len(timeline.sources))],
        "attempts": timeline.attempts,
        "world_size": timeline.world_size if timeline.world_size_known else None,
        "hosts": list(timeline.hosts),
        "ranks_seen": rank_ranges(timeline.ranks),
        "silent_ranks": rank_ranges(timeline.silent_ranks) if timeline.world_size_known else "",
        "dropped_events": timeline.dropped,
    }
    if first is None:
        if every_event:
            story["events"] = [event_as_dict(timeline, event) for event in timeline.events]
        return story
    if first.signature == "state-mismatch" and (keys := timeline.of("state-keys")):
        first = first._replace(text=f"{first.text} {keys[0].text}")
    story["first"] = event_as_dict(timeline, first)
    story["guilty"] = failed_process(timeline, lead, first)
    story["place"] = _user_code_location(timeline, first)
    known = KNOWN_CAUSES.get(first.signature) if ranked.outcome == "unnamed" else None
    # what is no rule has a name and no code
    story["code"] = None if lead is None else lead.code
    story["name"] = lead.name if lead is not None else known.name if known is not None else None
    story["why"] = lead.message if lead is not None else _unnamed(timeline, ranked, first)
    story["fix"] = _fix(timeline, ranked, first).as_dict()
    story["led_to"] = list(_led_to(timeline, first))
    story["evidence"] = [event_as_dict(timeline, event) for event in _evidence(timeline, ranked, first)]
    if every_event:
        story["events"] = [event_as_dict(timeline, event) for event in timeline.events]
    return story


def event_as_dict(timeline: Timeline, event: Event) -> dict[str, Any]:
    """Return an event as plain values."""
    plain: dict[str, Any] = {
        "path": timeline.path(event),
        "line": event.line,
        **{name: value for name, value in event.who._asdict().items() if value is not None},
        "time": None if event.time is None else _shown_time(timeline, event),
        "kind": event.kind.name.lower(),
        "signature": event.signature,
        "text": event.text,
        "repeated": event.repeated,
    }
    if timeline.attempts > 1:
        plain["attempt"] = event.attempt
    return plain


def _shown_time(timeline: Timeline, event: Event) -> str:
    """The time of an event, without a year that the log does not have."""
    text = iso_time(event.time or 0)
    return text[len("2000-") :] if timeline.sources[event.source].year_guessed else text


def iso_time(seconds: float) -> str:
    """Return a time of a log as ISO 8601, without a zone, since logs rarely print theirs."""
    try:
        return datetime.fromtimestamp(seconds, timezone.utc).replace(tzinfo=None).isoformat(timespec="milliseconds")
    except (OverflowError, OSError, ValueError):
        return f"{seconds:.3f}"


def _source(timeline: Timeline, number: int) -> dict[str, Any]:
    source = timeline.sources[number]
    return {
        "path": source.path,
        "lines": source.lines,
        "bytes": source.bytes,
        "problem": source.problem or None,
        "notes": list(source.notes),
    }


def _user_code_location(timeline: Timeline, first: Event) -> str | None:
    """``train.py:33 in main``: the innermost line of the user's own code, where the log has a traceback."""
    event = first
    if event.traceback is None:
        # the traceback often stands behind the line that names the cause
        event = next(
            (
                other
                for other in timeline.events
                if other.traceback is not None and other.who == first.who and other.attempt == first.attempt
            ),
            first,
        )
    frame = None if event.traceback is None else event.traceback.users
    return None if frame is None else f"{frame.path}:{frame.line} in {frame.function}"


def _unnamed(timeline: Timeline, ranked: Ranked, first: Event) -> str:
    if ranked.outcome == "consequences":
        return (
            "this text holds only consequences: the first failure was logged elsewhere, or not at all"
            if first.kind in (Kind.LOST, Kind.SIGNAL, Kind.TABLE)
            else "ranks waited for a rank that did not join; the reason is not in this text"
        )
    if first.signature in KNOWN_CAUSES:
        return KNOWN_CAUSES[first.signature].meaning + _details(timeline, first)
    return "no rule of distcheck names this failure; it was the first that was seen"


def _details(timeline: Timeline, first: Event) -> str:
    """What another line adds to a cause that is no rule's: which check of a kernel failed, which node."""
    if first.signature == "cuda-device-assert":
        checks = [event.values["said"] for event in timeline.of("cuda-assertion") if event.values.get("said")]
        return f": {checks[0]}" if checks else ""
    host = failed_node(timeline) if first.signature == "node-failed" else None
    return "" if host is None else f": {host}"


def _fix(timeline: Timeline, ranked: Ranked, first: Event) -> Fix:
    if ranked.lead is not None:
        return ranked.lead.fix
    if ranked.outcome == "consequences":
        # a rank that was ended names the sender of its signal; a lost peer, whose log to fetch
        for code in ("DC125", "DC518") if first.kind is Kind.SIGNAL else ("DC518",):
            for finding in ranked.findings:
                if finding.code == code:
                    return finding.fix
        name, options = keep_each_log(timeline)
        return Fix(
            f"read the log of the rank that exited first, on its own host. {name} {options} keeps the text of each "
            "rank",
            command=options,
            where="launch-line",
        )
    if first.signature in KNOWN_CAUSES:
        node = failed_node(timeline)
        known = KNOWN_CAUSES[first.signature]
        return Fix(known.hint if node is None else known.hint.replace("NODE", node), where=known.where)
    if first.signature == "ended" and "SIG" in first.text:
        return Fix(
            "let Python print its stack when a signal ends it, and run again. 'dmesg -T' and a core file show "
            "the native code",
            command="export PYTHONFAULTHANDLER=1",
            where="job-script",
        )
    place = _user_code_location(timeline, first)
    if place is not None:
        return Fix(f"read the traceback; the last line of your own code in it is {place}", where="code")
    if first.signature == "error-line" or any(event.traceback is not None for event in timeline.events):
        return Fix("read the lines around it: no traceback of this process is in the text", where="code")
    return Fix(
        "decorate main() with torch.distributed.elastic.multiprocessing.errors.record, so that the traceback of the "
        "first failure is kept, and run it again",
        where="code",
    )


def _led_to(timeline: Timeline, first: Event) -> Iterator[str]:
    """What came of it, one phrase for each kind of consequence."""
    later = [
        event
        for event in timeline.events
        if event.attempt >= first.attempt and (event.source, event.line) != _position(first)
    ]
    for kind, one, several in (
        (Kind.TIMEOUT, "waited until its time limit was over", "waited until their time limit was over"),
        (Kind.LOST, "lost its peer", "lost their peers"),
        (Kind.SIGNAL, "got a stop signal", "got a stop signal"),
    ):
        events = [event for event in later if event.kind is kind]
        if events and kind is not first.kind:
            named, alone = _writers(events)
            yield f"{named} {one if alone else several} ({_location(timeline, events[0])})"
    failed = [worker for worker in timeline.workers if worker.attempt >= first.attempt and worker.exitcode is not None]
    if failed:
        codes = sorted({worker.exitcode for worker in failed if worker.exitcode is not None})
        listed = ", ".join(map(str, codes))
        yield f"the launcher ended the job: {len(failed)} failed, exit code{'s' * (len(codes) != 1)} {listed}"
    elif table := [event for event in later if event.kind is Kind.TABLE]:
        yield f"the launcher ended the job ({_location(timeline, table[0])})"
    if timeline.attempts > 1:
        yield f"the job was restarted {timeline.attempts - 1} time{'s' * (timeline.attempts > 2)}"


def _position(event: Event) -> tuple[int, int]:
    return event.source, event.line


def _location(timeline: Timeline, event: Event) -> str:
    return f"{timeline.path(event)}:{event.line}"


def _writers(events: Iterable[Event]) -> tuple[str, bool]:
    """Who wrote these, and whether that is one."""
    ranks = sorted({event.who.rank for event in events if event.who.rank is not None})
    if len(ranks) == 1:
        return f"rank {ranks[0]}", True
    if ranks:
        return f"ranks {rank_ranges(ranks)}", False
    return "other processes", False


def _evidence(timeline: Timeline, ranked: Ranked, first: Event) -> Iterator[Event]:
    """The lines to read, in their order: of the cause, the same of other ranks, and one of each thing it led to."""
    alike = [event for event in timeline.events if event.signature == first.signature]
    if ranked.lead is None:
        alike = [
            event
            for event in timeline.events
            if event.who == first.who and event.kind in (Kind.CAUSE, Kind.FAILURE) and event.attempt == first.attempt
        ]
    else:
        alike = list(by_rank(alike).values())
    judged = {(finding.where.path, finding.where.line) for finding in ranked.findings if role_of(finding) != "context"}
    wanted = {_position(event) for event in (first, *alike[:_MOST_LINES])}
    wanted |= {_position(event) for event in timeline.events if (timeline.path(event), event.line) in judged}
    if ranked.lead is not None:
        # what the finding quotes
        message = ranked.lead.message
        wanted |= {_position(event) for event in timeline.of("nccl-warn") if event.values["said"].strip() in message}
    for kind in (Kind.FAILURE, Kind.TIMEOUT, Kind.LOST, Kind.SIGNAL, Kind.TABLE):
        event = next((event for event in timeline.events if event.kind is kind and event.text.strip()), None)
        if event is not None:
            wanted.add(_position(event))
    shown: dict[tuple[int, int], Event] = {}
    for event in (*timeline.events, first):
        if _position(event) in wanted and event.text.strip() and event.line:
            shown.setdefault(_position(event), event)
    yield from (shown[place] for place in sorted(shown))
