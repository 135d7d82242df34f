"""Brings what was read of several files together: who is who, which restart, in which order, how many ranks.

It judges nothing; :mod:`.identities` and :mod:`.attempts` answer its two hard questions.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Mapping, Sequence

from distcheck.rules.signatures import Kind

from .attempts import Attempts, in_order
from .model import MOST_RANKS, Dump, Event, LineAuthor, LogReading, LogSource, RankStream, Timeline, WorkerFailure
from .rank_identity import Identities, filled
from .recovery import went_on

_WORLD = re.compile(
    r"(?i)\b(?:world[ _-]?size|global_world_sizes?|dist_world_size|num_processes|number of processes|num processes)"
    r"\]?['\"]?(?: of| is|:|=|,)? ?['\"\[(]?(\d{1,7})\b"
    r"|\bn[rR]anks (\d{1,7})\b"
    r"|\b\d+/(\d{1,7}) clients joined"
    r"|\bMEMBER: \d+/(\d{1,7})\b"
    r"|Starting with (\d{1,7}) processes"
)
_NOT_THE_WORLD = re.compile(
    r"(?i)(?:local|group|role|tensor|pipeline|data|expert|context|model|tp|pp|dp|ep|cp)[_ -]?(?:parallel[_ -]?)?$"
)
_HINTS = ("orld", "WORLD", "ranks", "Ranks", "rocesses", "clients joined", "MEMBER")


def join(readings: Sequence[LogReading]) -> Timeline:
    """One timeline of all that was read; its sources are the readings', in their order."""
    sources = _with_sure_hosts([reading.source for reading in readings])
    workers = [worker._replace(source=number) for number, reading in enumerate(readings) for worker in reading.workers]
    rows = {(worker.source, worker.line): worker for worker in workers if worker.rank is not None and worker.message}
    places = sorted(rows)
    events = [
        _of_its_row(_of_its_rank(_of_agent(_as_own(_at(event, number)))), rows, places)
        for number, reading in enumerate(readings)
        for event in reading.events
    ]
    events = _raised(events)
    rank_streams = [
        voice._replace(source=number) for number, reading in enumerate(readings) for voice in reading.rank_streams
    ]
    dumps = tuple(
        dump._replace(source=number, rank=dump.rank if dump.rank is not None else reading.source.who.rank)
        for number, reading in enumerate(readings)
        for dump in reading.dumps
    )
    attempts = Attempts(sources, events)
    stated = max((size for size in (world_size_of(events), *(dump.world_size for dump in dumps)) if size), default=None)
    identities = Identities(sources, events, rank_streams, workers, stated)
    events = [
        _with_lost_rank(event, identities)._replace(
            who=identities.of(event.who, event.source), attempt=attempts.of(event.source, event.line, event.time)
        )
        for event in events
    ]
    merged = merged_workers([_placed(worker, sources, identities, attempts) for worker in workers])
    speakers = merge_streams(voice._replace(who=identities.of(voice.who, voice.source)) for voice in rank_streams)
    ordered = in_order(events, merged)
    highest = _highest_rank(ordered, speakers, merged, dumps)
    size = stated if stated is not None else (highest + 1 if highest is not None else None)
    return Timeline(
        sources=sources,
        events=ordered,
        rank_streams=speakers,
        workers=merged,
        dumps=dumps,
        world_size=size,
        world_size_known=stated is not None,
        attempts=1 + max([0, *(event.attempt for event in ordered), *(worker.attempt for worker in merged)]),
        dropped=sum(reading.dropped for reading in readings),
        went_on=went_on(readings, ordered, identities),
    )


def _at(event: Event, source: int) -> Event:
    return event if event.source == source else event._replace(source=source)


def _with_sure_hosts(sources: Sequence[LogSource]) -> tuple[LogSource, ...]:
    """A name like ``node7-run.log`` names a host only among others that name theirs."""
    if len(sources) == 1:
        return tuple(
            source._replace(who=LineAuthor()) if source.who == LineAuthor(host=source.who.host) else source
            for source in sources
        )
    return tuple(sources)


#: How much of a row's message must be the text of an event, in characters.
_LONGEST_HEAD = 80
#: Libraries whose connections lead to servers of the outer world, and to no rank.
_DOWNLOADERS = ("/requests/", "/urllib3/", "/urllib/request", "/httpx/", "/httpcore/", "/aiohttp/", "/huggingface_hub/")


def _as_own(event: Event) -> Event:
    """An ordinary exception of a rank: a program that it ran, or a connection to a server that is no rank's."""
    if event.traceback is None:
        return event
    if event.signature == "workers-ended" and event.who.rank is not None:
        return event._replace(signature="exception", kind=Kind.FAILURE, codes=())
    if event.kind is not Kind.LOST:
        return event
    paths = [frame.path.replace("\\", "/") for frame in event.traceback.frames]
    if any("torch/distributed" in path for path in paths):
        return event
    if any(part in path for path in paths for part in _DOWNLOADERS):
        return event._replace(signature="exception", kind=Kind.FAILURE, codes=())
    return event


def _raised(events: Sequence[Event]) -> list[Event]:
    """Return the events without exceptions that Python ignored: in a destructor, at exit."""
    reports: dict[tuple[int, LineAuthor], list[Event]] = {}
    for event in events:
        if event.signature == "unraisable":
            reports.setdefault((event.source, event.who), []).append(event)
    if not reports:
        return list(events)
    of_writer: dict[tuple[int, LineAuthor], list[Event]] = {writer: [] for writer in reports}
    for event in events:
        if (event.source, event.who) in of_writer:
            of_writer[event.source, event.who].append(event)
    ignored = {writer: _below(reports[writer], own) for writer, own in of_writer.items()}
    return [event for event in events if not _is_ignored(event, reports, ignored)]


def _below(reports: Sequence[Event], own: Sequence[Event]) -> set[int]:
    """Return the first lines of the tracebacks that belong to reports of ignored exceptions of one process.

    A report without a traceback has its exception directly below. Between the lines of a process with a label may be
    those of others.
    """
    begins = sorted(event.traceback.first_line for event in own if event.traceback is not None)
    others = sorted(event.line for event in own if event.traceback is None)
    found = set[int]()
    for report in reports:
        at = bisect.bisect(begins, report.line)
        apart = 1 if report.who == LineAuthor() else _MOST_BETWEEN
        # no other line of the process is between
        if (
            at < len(begins)
            and begins[at] - report.line <= apart
            and bisect.bisect(others, report.line) == bisect.bisect_left(others, begins[at])
        ):
            found.add(begins[at])
    return found


#: Lines at most from the report of an ignored exception to the header of its traceback, if other ranks write as well.
_MOST_BETWEEN = 16


def _is_ignored(
    event: Event,
    reports: Mapping[tuple[int, LineAuthor], Sequence[Event]],
    ignored: Mapping[tuple[int, LineAuthor], set[int]],
) -> bool:
    """Whether an exception was ignored each time that it was written."""
    writer = (event.source, event.who)
    return (
        event.traceback is not None
        and event.traceback.first_line in ignored.get(writer, ())
        and event.repeated < sum(1 + report.repeated for report in reports[writer])
    )


#: Functions of torchrun's agent that run after the workers have started: its store was there before.
_WITH_WORKERS = frozenset(("num_nodes_waiting", "_exit_barrier"))


def _of_agent(event: Event) -> Event:
    """An exception of torchrun's agent from its exit barrier, or because the store that it had is lost."""
    if event.traceback is None:
        return event
    functions = _WITH_WORKERS.intersection(frame.function for frame in event.traceback.frames)
    if "_exit_barrier" in functions:
        return event._replace(signature="exit-barrier", kind=Kind.LOST, codes=("DC518",))
    if functions and event.signature == "rendezvous-connection":
        return event._replace(signature="rendezvous-left", kind=Kind.LOST, codes=("DC518",))
    return event


#: How an exception of C++ begins that no handler caught, with the rank in the default group that torch names.
_UNCAUGHT = re.compile(r"\s*what\(\):\s+\[(?:PG ID 0 PG GUID 0[^\]\[]{0,200}? |PG 0 [^\]\[]{0,80}?)?Rank (\d{1,6})\]")


def _of_its_rank(event: Event) -> Event:
    """The head of torch_npu's errors, and of C++ exceptions, names their writer within the message of an exception."""
    if event.who.rank is not None:
        return event
    if event.signature == "npu-call-failed":
        return event._replace(who=event.who._replace(rank=int(event.values["rank"])))
    uncaught = _UNCAUGHT.match(event.text)
    return event if uncaught is None else event._replace(who=event.who._replace(rank=int(uncaught[1])))


def _with_lost_rank(event: Event, identities: Identities) -> Event:
    """The rank of a worker that Ray reports as dead by its process id."""
    pid = event.number("pid") if event.signature == "worker-lost" else None
    if pid is None:
        return event
    rank = identities.rank_of_process(event.values.get("ip"), pid)
    return event if rank is None else event._replace(values={**event.values, "peer": str(rank)})


def _of_its_row(
    event: Event, rows: Mapping[tuple[int, int], WorkerFailure], places: Sequence[tuple[int, int]]
) -> Event:
    """The exception in a row of torchrun's report is that of the row's rank."""
    if event.traceback is None or event.who.rank is not None:
        return event
    before = bisect.bisect(places, (event.source, event.line))
    row = rows[places[before - 1]] if before else None
    if row is None or row.source != event.source or not event.text.strip().startswith(row.message[:_LONGEST_HEAD]):
        return event
    return event._replace(who=event.who._replace(rank=row.rank))


def world_size_of(events: Iterable[Event]) -> int | None:
    """The number of ranks that the log names: the largest, since the groups of a job are parts of it."""
    largest = 0
    for event in events:
        text = event.text
        if event.kind in _SPEAKING or not any(hint in text for hint in _HINTS):
            continue
        for match in _WORLD.finditer(text):
            if match[1] is not None and _NOT_THE_WORLD.search(text, max(0, match.start() - 40), match.start()):
                continue
            number = int(match[match.lastindex or 1])
            if largest < number <= MOST_RANKS:
                largest = number
    return largest or None


#: Kinds of lines that speak of what is wrong, with numbers that may be just that.
_SPEAKING = frozenset((Kind.CAUSE, Kind.FAILURE))


def _highest_rank(
    events: Iterable[Event], rank_streams: Iterable[RankStream], workers: Iterable[WorkerFailure], dumps: Iterable[Dump]
) -> int | None:
    ranks = [event.who.rank for event in events]
    ranks += [voice.who.rank for voice in rank_streams]
    ranks += [worker.rank for worker in workers]
    ranks += [dump.rank for dump in dumps]
    return max((rank for rank in ranks if rank is not None), default=None)


def _placed(
    worker: WorkerFailure, sources: Sequence[LogSource], identities: Identities, attempts: Attempts
) -> WorkerFailure:
    """Return a row with its attempt, and its rank if another line shows it."""
    who = identities.of(LineAuthor(worker.rank, worker.local_rank, worker.host, worker.pid), worker.source)
    attempt = attempts.of(worker.source, worker.line, worker.time)
    return worker._replace(
        rank=who.rank, local_rank=who.local_rank, host=who.host, attempt=max(attempt, worker.attempt)
    )


def merged_workers(workers: Sequence[WorkerFailure]) -> tuple[WorkerFailure, ...]:
    """A row of the launcher's report, its line of the same failure and the error file of the process are one."""
    found: dict[object, WorkerFailure] = {}
    of_pid: dict[tuple[int, int], object] = {}
    # rows with a rank first: what has only a process id or a local rank is brought to them
    for number, worker in sorted(enumerate(workers), key=lambda item: (item[1].rank is None, item[0])):
        key: object = number
        known = None if worker.pid is None else of_pid.get((worker.attempt, worker.pid))
        if worker.rank is not None:
            key = (worker.attempt, worker.rank)
        elif known is not None and _may_be_one(found[known], worker):
            key = known
        elif worker.local_rank is not None:
            key = (worker.attempt, worker.host, worker.local_rank, worker.source)
        if worker.pid is not None:
            of_pid.setdefault((worker.attempt, worker.pid), key)
        before = found.get(key)
        found[key] = worker if before is None else _both(before, worker)
    return tuple(sorted(found.values(), key=lambda worker: (worker.attempt, worker.source, worker.line)))


def _may_be_one(one: WorkerFailure, other: WorkerFailure) -> bool:
    """Whether two rows with the same process id can be of one process: hosts count their processes alike."""
    return all(
        a is None or b is None or a == b for a, b in ((one.host, other.host), (one.local_rank, other.local_rank))
    )


def _both(one: WorkerFailure, other: WorkerFailure) -> WorkerFailure:
    """Return what either knows; the location is that of the row in a log, which a person can open."""
    place, file = (one, other) if one.line else (other, one)
    return place._replace(
        rank=place.rank if place.rank is not None else file.rank,
        local_rank=place.local_rank if place.local_rank is not None else file.local_rank,
        host=place.host or file.host,
        exitcode=place.exitcode if place.exitcode is not None else file.exitcode,
        # when the process itself failed, not when another one noticed
        time=min((time for time in (place.time, file.time) if time is not None), default=None),
        pid=place.pid if place.pid is not None else file.pid,
        first=place.first or file.first,
        message=max(place.message, file.message, key=len),
    )


def merge_streams(rank_streams: Iterable[RankStream]) -> tuple[RankStream, ...]:
    """One voice a process, whatever number or file it wrote under: its last words are the latest."""
    found: dict[object, RankStream] = {}
    for voice in rank_streams:
        who = voice.who
        key: object = ("rank", who.rank)
        if who.rank is None:
            key = (who, voice.source) if who.pid is None or who.host is None else who
        before = found.get(key)
        found[key] = voice if before is None else _one_voice(before, voice)
    return tuple(found.values())


def _one_voice(one: RankStream, other: RankStream) -> RankStream:
    first, last = one, other
    if one.source == other.source:
        if one.last_line > other.last_line:
            first, last = other, one
    elif one.last_time is not None and (other.last_time is None or one.last_time > other.last_time):
        first, last = other, one
    who = filled(last.who, first.who)
    if one.source == other.source:
        return last._replace(who=who, first_line=min(one.first_line, other.first_line))
    return last._replace(who=who)
