"""What is known of a dead job's log: who wrote what, when, where it stands. Values only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from distcheck.core.code_blocks import CodeBlock
from distcheck.core.model import Finding, Fix, Rule, Severity, Where, rank_ranges
from distcheck.rules.signatures import Kind

#: The largest known jobs have some 100,000 ranks. A larger number is no rank.
MOST_RANKS = 1_000_000
#: Longest text of a line that is kept, in characters.
LONGEST_TEXT = 500


#: Digits that a number of a log may have.
_LONGEST_NUMBER = 20


class LineAuthor(NamedTuple):
    """The process that wrote a line, as far as its prefix, its file or the line itself shows. None: unknown.

    Two lines may name the same process by different numbers; ``timeline.py`` brings them together.
    """

    #: global rank: ``[rank3]:``, ``[3] NCCL``'s process by its ``comm … rank 3``, ``rank_3.log``
    rank: int | None = None
    #: ``[default3]:``, ``attempt_0/3/stderr.log``
    local_rank: int | None = None
    #: ``host:pid:tid [dev] NCCL …``, pdsh's ``host:``, syslog; a pod's or container's name counts as one
    host: str | None = None
    pid: int | None = None
    #: number of a scheduler's task: ``srun --label``'s ``3:``, ``job-%j-3.out``, mpirun's ``[1,3]<stderr>:``
    task: int | None = None


class TracebackFrame(NamedTuple):
    """A line of a traceback: ``File "train.py", line 33, in main`` and the code below it."""

    path: str
    line: int
    function: str
    code: str = ""


class Traceback(NamedTuple):
    """A Python traceback of one process, separated from the lines of others between its own."""

    frames: tuple[TracebackFrame, ...]
    #: ``torch.distributed.DistNetworkError``; empty where the log ends before it
    exception: str
    message: str
    #: the line of its header; of exceptions that follow from each other: of the first one's
    first_line: int = 0

    @property
    def users(self) -> TracebackFrame | None:
        """The innermost frame of the user's own code: outside of site-packages and of Python's library."""
        for frame in reversed(self.frames):
            if not is_of_a_library(frame.path):
                return frame
        return None


def is_of_a_library(path: str) -> bool:
    """Whether a file is none of the user's: installed, of Python's library, or frozen."""
    # a console script has no ending: torchrun, deepspeed
    script = "/bin/" in path and not path.endswith(".py")
    return (
        script
        or path.startswith("<")
        or any(
            part in path for part in ("site-packages/", "dist-packages/", "/lib/python3", "\\Lib\\", "site-packages\\")
        )
    )


class Event(NamedTuple):
    """A line of the log (or a record next to it) that matches a signature.

    A line that matches several signatures makes several events with the same location.
    """

    #: name of the signature; ``exception`` for a traceback's last line and ``error-line`` for a line that only seems
    #: like an error, where no signature fits
    signature: str
    kind: Kind
    who: LineAuthor
    #: which of :attr:`Timeline.sources`
    source: int
    #: line in that file, from 1
    line: int
    #: seconds since the epoch as the line's clock has it (a time without a zone is taken as UTC); None: no time
    time: float | None
    #: the line without what launchers and loggers wrote before it, without credentials, at most LONGEST_TEXT characters
    text: str
    #: the named groups of the signature
    values: Mapping[str, str] = {}
    codes: tuple[str, ...] = ()
    #: number of the restart, from 0
    attempt: int = 0
    #: how many times the same process wrote the same text again (those lines are not kept)
    repeated: int = 0
    #: where it was written last; 0 where that is :attr:`line`
    last_line: int = 0
    #: for an exception: the whole; for a named line that is an exception's message as well
    traceback: Traceback | None = None

    @property
    def until(self) -> int:
        """The line up to which it was written again and again."""
        return self.last_line or self.line

    def number(self, name: str) -> int | None:
        """A value as a number; None where there is none, or it is no number."""
        text = self.values.get(name) or ""
        return int(text) if text.isdecimal() and len(text) < _LONGEST_NUMBER else None


class LogSource(NamedTuple):
    """A file (or a pipe) that was read."""

    path: str
    bytes: int = 0
    lines: int = 0
    #: what the name of the file shows of the process that wrote it
    who: LineAuthor = LineAuthor()
    #: number of the restart, where the folder names it (``attempt_1``)
    attempt: int | None = None
    #: why it, or its end, could not be read; empty where all was
    problem: str = ""
    #: what is worth knowing of how it was read: "compressed", "UTF-16", "lines of 40 MB were read in parts"
    notes: tuple[str, ...] = ()
    #: its times name no year: they are read as of the last one
    year_guessed: bool = False


class RankStream(NamedTuple):
    """One process that wrote into the log: who it is, and the last line that is known of it."""

    who: LineAuthor
    source: int
    first_line: int
    last_line: int
    last_time: float | None = None
    last_text: str = ""


class Collective(NamedTuple):
    """An entry of a flight recorder: one collective as one rank saw it."""

    #: name or number of the process group
    group: str
    #: collective_seq_id, from 1; None for a point-to-point operation
    sequence: int | None
    #: ``all_reduce``, ``broadcast`` …, without the back end's name
    operation: str
    sizes: str
    dtypes: str
    #: ``scheduled``, ``started``, ``completed``
    state: str
    #: the innermost line of the user's own code: ``train.py:88 in main``; empty where the dump has no stack
    place: str = ""
    backend: str = ""


class Dump(NamedTuple):
    """A flight recorder's dump of one rank: the entries still kept, in order."""

    rank: int | None
    source: int
    entries: tuple[Collective, ...] = ()
    #: ranks of each group where the dump lists it
    groups: Mapping[str, tuple[int, ...]] = {}
    world_size: int | None = None
    problem: str = ""


#: Exit codes of a process that SIGTERM ended, as Python and as a shell (128 + 15) write them.
ENDED_BY_SIGTERM = (-15, 143)


class WorkerFailure(NamedTuple):
    """A row of torchrun's failure report, or an ``error.json``."""

    rank: int | None
    local_rank: int | None
    host: str | None
    #: 3 for ``sys.exit(3)``, -11 for SIGSEGV; None: unknown
    exitcode: int | None
    time: float | None
    pid: int | None = None
    #: torchrun's *Root Cause (first observed failure)*
    first: bool = False
    #: torchrun's *Failures*: the launcher saw another process fail before this one
    later: bool = False
    #: what the process itself recorded (``@record``, ``error.json``)
    message: str = ""
    source: int = 0
    line: int = 0
    attempt: int = 0


class LogReading(NamedTuple):
    """What one pass over one source gave, before readings are joined to a timeline: ``source`` is 0 everywhere."""

    source: LogSource
    #: in the order of their lines
    events: tuple[Event, ...] = ()
    #: one for each process that the prefixes identify
    rank_streams: tuple[RankStream, ...] = ()
    workers: tuple[WorkerFailure, ...] = ()
    dumps: tuple[Dump, ...] = ()
    dropped: int = 0
    #: the last lines of the file with their numbers: they show whether a job continued after an error
    tail: tuple[tuple[int, LineAuthor, str], ...] = ()


class Timeline(NamedTuple):
    """The fact that everything is judged from: what happened, in order, as far as the text shows it.

    ``events`` are sorted by attempt, then by time where all that are compared have one, else by file and line.
    """

    sources: tuple[LogSource, ...]
    events: tuple[Event, ...]
    rank_streams: tuple[RankStream, ...] = ()
    #: rows of launchers' failure reports and error files
    workers: tuple[WorkerFailure, ...] = ()
    dumps: tuple[Dump, ...] = ()
    #: ranks of the job where the log has it, or one more than the highest rank seen under ``world_size_known`` False
    world_size: int | None = None
    world_size_known: bool = False
    #: number of restarts seen, plus one
    attempts: int = 1
    #: events that were not kept because there were too many
    dropped: int = 0
    #: the job continued after the last error, or ended well, as steps or "training done" show
    went_on: bool = False
    #: frame of a rank that lost a peer → the loops and branches around its line; only where its script was read
    around: Mapping[TracebackFrame, tuple[CodeBlock, ...]] = {}

    def of(self, *signatures: str) -> tuple[Event, ...]:
        """The events of these signatures, in order."""
        return tuple(event for event in self.events if event.signature in signatures)

    def has(self, *signatures: str) -> bool:
        """Whether one of these was seen."""
        return any(event.signature in signatures for event in self.events)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that the log names as writers, sorted."""
        return tuple(sorted({voice.who.host for voice in self.rank_streams if voice.who.host is not None}))

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that wrote anything, sorted."""
        return tuple(sorted({voice.who.rank for voice in self.rank_streams if voice.who.rank is not None}))

    @property
    def silent_ranks(self) -> tuple[int, ...]:
        """The ranks of the job that wrote nothing that is in the text."""
        return () if self.world_size is None else tuple(sorted(set(range(self.world_size)) - set(self.ranks)))

    def path(self, event: Event) -> str:
        """The file that an event stands in."""
        return self.sources[event.source].path


#: The role of a finding in the root-cause summary, the strongest first. Its evidence holds it as ``role``.
ROLES = ("cause", "failure", "timeout", "lost", "context")
_ROLE_OF = {Kind.CAUSE: "cause", Kind.FAILURE: "failure", Kind.TIMEOUT: "timeout", Kind.LOST: "lost"}


def found(
    rule: Rule,
    timeline: Timeline,
    events: Iterable[Event],
    message: str,
    *,
    fix: Fix,
    severity: Severity | None = None,
    role: str | None = None,
    rank: int | None = None,
    evidence: Mapping[str, Any] | None = None,
) -> Finding:
    """Return a finding about lines of the log. Its location is the first event.

    :param rule: the rule
    :param timeline: the fact that the probe was given
    :param events: at least one, the decisive one first
    :param role: its role in the root-cause summary, one of ROLES; by default the first event's kind, ``context`` for a
        notice. ``context`` findings are never the root cause
    :param rank: the failed rank if it did not write the first line; -1: none
    :param message: one sentence, no full stop at its end: what is wrong, with the values seen
    :param fix: what to do about it, for exactly this case
    :param severity: another severity than the rule's default, where the rule allows it
    :param evidence: more values as plain JSON, in addition to the role, the text and the number of lines
    :raises ValueError: as :meth:`distcheck.Rule.found`
    """
    lines = list(events)
    first = lines[0]
    ranks = sorted({event.who.rank for event in lines if event.who.rank is not None})
    who = first.who
    named = rank if rank is not None else who.rank
    if named is None and first.kind is Kind.CAUSE:
        # the same words, once by the process and once in its traceback
        alike = {event.who.rank for event in lines if event.signature == first.signature} - {None}
        named = alike.pop() if len(alike) == 1 else None
    place = Where(
        path=timeline.path(first),
        line=first.line,
        host=who.host if rank is None or rank == who.rank else None,
        rank=None if named == -1 else named,
        local_rank=who.local_rank if named is None and who.rank is None else None,
    )
    seen: dict[str, Any] = {
        "role": role or _ROLE_OF.get(first.kind, "context"),
        "text": first.text,
        "lines": len(lines) + sum(event.repeated for event in lines),
    }
    if len(ranks) > 1:
        seen["ranks"] = rank_ranges(ranks)
    if rank == -1:
        seen["failed_rank"] = "unknown"
    return rule.found(message, fix=fix, where=place, severity=severity, evidence={**seen, **(evidence or {})})


def by_rank(events: Iterable[Event]) -> dict[int | None, Event]:
    """The first event of each rank, in order."""
    firsts: dict[int | None, Event] = {}
    for event in events:
        firsts.setdefault(event.who.rank, event)
    return firsts
