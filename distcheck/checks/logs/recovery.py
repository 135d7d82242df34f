"""Whether a job continued after an error in its log: a caught exception, a successful retry, a lost helper.

An exception that was not caught, or a line that names a cause, counts as fatal unless that very process is seen to
continue. Without a prefix the process of a step is unknown, and a long log has steps of others behind it. What is less
certain (an exception that was printed, a time-out, a lost peer) is outlived by any progress.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from distcheck.rules.signatures import Kind

from .model import Event, LineAuthor, LogReading, Traceback, is_of_a_library
from .rank_identity import Identities

_PROGRESS = re.compile(
    r"(?i)(?:^|[^a-z])(?:it/s|s/it|samples/s|tokens/s(?:ec)?|examples/s|steps?/s)\b"
    r"|(?:^|[^a-z])(?:epoch|step|iter(?:ation)?|batch|loss|lr)s?\b[^\w.]{0,12}\d"
    r"|\b(?:saved?|saving|wrote|written)\b.{0,60}\b(?:checkpoint|model|state|weights)"
    r"|\bcheckpoint\b.{0,80}\b(?:saved|written|complete)"
)
_END = re.compile(
    r"(?i)\b(?:training|fine-?tuning|job|run|evaluation|all epochs?|benchmark)\b.{0,30}"
    r"\b(?:completed?|finished|done|succeeded|success(?:ful(?:ly)?)?)\b"
    r"|\b(?:finished|completed|done)\b.{0,10}\b(?:training|fine-?tuning|successfully)\b"
    r"|\btrain_runtime\b|^\s*(?:all )?done[.!]?\s*$|\bexit(?:ed)? with code 0\b"
)
#: What a batch script prints at its end, whatever happened to the program that it started.
_END_OF_SCRIPT = re.compile(
    r"(?i)^\W*(?:(?:the |this )?(?:job|run)\b.{0,30}\b(?:completed?|finished|done)\b|(?:all )?done[.!]?\s*$)"
)
_BAD = re.compile(r"(?i)error|exception|fail|abort|traceback|killed|timed? ?out|warn|\bFile \"|^frame #|\.py[:\"]")
#: Lines of progress by others that show that a job lives; a step or two can still come out of a dying one's buffers.
_SIGNS_OF_LIFE = 5
#: Blocks of lines of a rank between those of others. Few are also of a buffer that was full several times.
_TURNS = 3
#: Lines of a frame in a traceback at most: its location, its code, and the marks below the code.
_LINES_OF_A_FRAME = 3
#: Commands in a ``CalledProcessError`` that may run the ranks themselves.
_RUNS_RANKS = re.compile(r"python|torchrun|deepspeed|accelerate|mpirun|mpiexec|srun|horovodrun")
#: Functions in which a process's own stack begins: runpy, multiprocessing, torch.multiprocessing.spawn.
_BEGINNINGS = frozenset(("<module>", "_run_module_as_main", "_bootstrap", "_wrap", "spawn_main"))


def went_on(readings: Sequence[LogReading], events: Sequence[Event], identities: Identities) -> bool:
    """Return whether the ends of the files show a job that lives, or ended well, after all errors.

    :param events: of all files, with their processes and attempts; only those of the last attempt count
    """
    latest = max((event.attempt for event in events), default=0)
    copies: Counter[tuple[int, str]] = Counter()
    for event in events:
        copies[event.source, event.text] = max(copies[event.source, event.text], 1 + event.repeated)
    error_lines = [event for event in events if event.signature == "error-line"]
    restarts = {number: _restarted_at(reading, number, events) for number, reading in enumerate(readings)}
    agents = _agents_that_ended_well(events, latest)
    ended = {event.source: event.line for event in events if event.kind in (Kind.LOST, Kind.SIGNAL, Kind.TABLE)}
    last: dict[int, Event] = {}
    for event in events:
        if event.kind >= Kind.NOTICE or event.attempt < latest or event.until <= restarts[event.source]:
            continue
        if event.source in agents and event.kind in (Kind.TIMEOUT, Kind.LOST, Kind.SIGNAL):
            if _is_of_another_node(event, agents[event.source]):
                return False
            continue
        if is_fatal(event):
            times, logged = copies[event.source, event.text], _is_logged(event, error_lines)
            alone = ended.get(event.source, 0) <= event.line
            if not _survived(readings[event.source], event, identities, times=times, logged=logged, alone=alone):
                return False
        if event.source not in last or event.until >= last[event.source].until:
            last[event.source] = event
    begun = {
        number: max((event.until for event in events if event.source == number and event.attempt < latest), default=0)
        for number, _ in enumerate(readings)
    }
    alive = {
        number: _lives(reading, last.get(number), number, identities, begun[number])
        for number, reading in enumerate(readings)
        # the ranks of one host ended well; that shows nothing about those of another one
        if number not in agents or number in last
    }
    if not last:
        return bool(agents) or any(alive.values())
    ends = {number: event.until for number, event in last.items()}
    ended_well = any(_ends_well(readings[n], ends.get(n, 0), below_an_error=n in last) for n in alive)
    return all(
        alive[number]
        # a healthy rank may print nothing at its end: the others' is enough for what it had caught
        or (ended_well and event.kind is not Kind.TIMEOUT)
        or _outlived(event, readings, [other for other in alive if alive[other] and other != number])
        for number, event in last.items()
    )


def _agents_that_ended_well(events: Sequence[Event], latest: int) -> dict[int, int]:
    """Return the files, and lines, of torchrun's exit barrier: it waits there only if its ranks ended with status 0.

    Up to torch 2.1 it did so after a failure as well, which it logs first.
    """
    of_last = [event for event in events if event.attempt == latest]
    failed = {event.source for event in of_last if event.kind is Kind.TABLE}
    return {e.source: e.line for e in of_last if e.signature == "exit-barrier" and e.source not in failed}


def _is_of_another_node(event: Event, barrier: int) -> bool:
    """Return whether a rank wrote below torchrun's exit barrier, which its own ranks reach by ending well.

    torchrun's own lines about its lost store have no traceback, and no rank of their own.
    """
    own = event.kind is Kind.LOST and event.traceback is None
    return event.line > barrier and event.who.rank is not None and not own


def _restarted_at(reading: LogReading, number: int, events: Sequence[Event]) -> int:
    """Return the line at which torchrun restarted its workers without a message, or 0.

    It is logged at INFO only. Signs: a worker's failure is noted, the report that a last failure always gets is not
    there, and the job logs at its end that it is done.
    """
    own = [event for event in events if event.source == number and event.kind is Kind.TABLE]
    noted = [event.line for event in own if _NOTED in event.text or _AGAIN in event.text]
    if not noted or any(event.signature == "elastic-report" for event in own):
        return 0
    return noted[-1] if _ends_well(reading, noted[-1], below_an_error=True) else 0


#: How torchrun's agent notes a worker's failure (torch.distributed.elastic.multiprocessing.api).
_NOTED = "failed (exitcode: "
#: What it logs at INFO before it starts its workers again.
_AGAIN = "will restart worker group"


def is_fatal(event: Event) -> bool:
    """Whether the process that wrote this is dead, unless it is seen to go on."""
    if event.kind is Kind.TABLE:
        return True
    if event.signature == "error-line":
        return False
    frames = () if event.traceback is None else event.traceback.frames
    if event.traceback is not None and frames:
        # memory of a GPU is what programs run out of on purpose, to find the largest batch
        named = event.kind is Kind.CAUSE and (bool(event.codes) or is_of_a_library(frames[0].path))
        return named or is_uncaught(event.traceback)
    return event.kind in (Kind.CAUSE, Kind.FAILURE) and event.signature != "exception"


def is_uncaught(traceback: Traceback) -> bool:
    """Whether it goes back to where the program begins: one that was caught begins where it was caught."""
    if not traceback.frames:
        return False
    first = traceback.frames[0]
    if first.path.startswith(("<frozen runpy", "<string>")):
        return True
    if first.function == "<module>":
        # a console script, torchrun's among them, is where a program begins as well
        return not is_of_a_library(first.path) or "/bin/" in first.path
    return first.function in _BEGINNINGS


def _is_logged(event: Event, error_lines: Sequence[Event]) -> bool:
    """Whether a log line of an error stands directly above a traceback, as ``logger.exception`` writes it."""
    if event.traceback is None:
        return False
    lines = 2 + _LINES_OF_A_FRAME * len(event.traceback.frames)
    return any(
        other.source == event.source
        and other.who == event.who
        # of a line that was written again and again, its first and last number are known
        and other.line < event.line <= other.until + lines
        for other in error_lines
    )


def _survived(
    reading: LogReading, event: Event, identities: Identities, *, times: int, logged: bool, alone: bool
) -> bool:
    """Whether the end of the file shows that this very process went on, or that the job ended well.

    :param times: how many times the text of the event was written
    :param logged: its traceback was logged, and not only printed
    :param alone: no process is lost or ended in lines below
    """
    # a program that the job ran and did without raises like a launcher
    if event.kind is Kind.TABLE and ("CalledProcessError" not in event.text or _RUNS_RANKS.search(event.text)):
        return False
    ended = event.traceback is not None and is_uncaught(event.traceback)
    # NCCL names the process of a line, and the program's own lines name none
    by_nccl = event.traceback is None and event.who.rank is None and "NCCL WARN" in event.text
    unknown = by_nccl or event.who == LineAuthor()
    progressed, steps, finished, writers = False, 0, set[int](), list[int]()
    for line, who, text in reading.tail:
        if line <= event.until or _BAD.search(text):
            continue
        at_end = _END.search(text) is not None
        writer = identities.of(who, event.source)
        if writer == LineAuthor() or not (ended or by_nccl):
            progressed = progressed or _PROGRESS.search(text) is not None or "train_runtime" in text
        if unknown and writer == LineAuthor():
            # a batch script prints its last line whatever happened, and below an exception that ended the program come
            # the steps that its buffer held
            if at_end and progressed and (logged or not ended):
                return True
        elif writer == event.who and (at_end or (not ended and _PROGRESS.search(text))):
            return True
        elif alone and event.traceback is None and writer == LineAuthor():
            # a message of a rank, and a job that goes on in lines without a rank up to its end
            if at_end and steps >= _SIGNS_OF_LIFE and not _END_OF_SCRIPT.search(text):
                return True
            steps += _PROGRESS.search(text) is not None
        if writer.rank is not None:
            writers.append(writer.rank)
            if at_end:
                finished.add(writer.rank)
    if event.who.rank is not None or len(finished) < 2:
        return False
    # one of the ranks wrote it, and all of them reported their end below
    streams = [(identities.of(stream.who, event.source).rank, stream.first_line) for stream in reading.rank_streams]
    seen, before = {rank for rank, _ in streams} - {None}, {rank for rank, line in streams if line < event.line}
    if finished != seen or finished != set(range(identities.world_size or len(finished))):
        return False
    # where the number of ranks is unknown, a rank that crashed before its first own line is not missed
    if ended and identities.world_size is None and not (logged and times == len(finished)):
        return False
    # what a rank did not write above it may be of a buffer that was written later
    return finished <= before or _are_unbuffered(writers, finished)


def _are_unbuffered(writers: Sequence[int], ranks: set[int]) -> bool:
    """Whether the lines of these ranks take turns: a buffer that is written at the end of a process is one block."""
    turns = Counter(rank for rank, _ in itertools.groupby(writers))
    return all(turns[rank] >= _TURNS for rank in ranks)


def _lives(reading: LogReading, last: Event | None, number: int, identities: Identities, since: int) -> bool:
    """Whether a file's end shows progress after its last bad line.

    :param since: the last known line of an earlier attempt
    """
    own = others = 0
    since = since if last is None else max(since, last.until)
    if _ends_well(reading, since, below_an_error=last is not None):
        return True
    for line, who, text in reading.tail:
        if line > since and not _BAD.search(text) and _PROGRESS.search(text):
            same = last is None or (last.traceback is None and identities.of(who, number) == last.who)
            own += same
            others += not same
    return own > 0 or others >= _SIGNS_OF_LIFE


def _ends_well(reading: LogReading, since: int, *, below_an_error: bool) -> bool:
    """Whether the end of a file reports a finished job after a line."""
    progressed = not below_an_error
    for line, _, text in reading.tail:
        if line <= since or _BAD.search(text):
            continue
        if _END.search(text) and (progressed or not _END_OF_SCRIPT.search(text)):
            return True
        progressed = progressed or _PROGRESS.search(text) is not None
    return False


def _outlived(event: Event, readings: Sequence[LogReading], alive: Iterable[int]) -> bool:
    """Whether a file that shows progress at its end ends later than a bad line of another file."""
    return event.time is not None and any(
        voice.last_time is not None and voice.last_time > event.time
        for number in alive
        for voice in readings[number].rank_streams
    )
