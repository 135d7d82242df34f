"""Lines that name the writer of the lines below them: what ``tail`` prints before each file, ``[Rank 0]`` alone."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence

from distcheck.core.patterns import lazy
from distcheck.core.signature import Kind, Signature

from .model import Event, LineAuthor, RankStream
from .prefixes import UNKNOWN_WRITER, Prefixes
from .rank_identity import filled
from .sources import who_by_name

#: The row of lines at which the text of one file or process begins or ends.
SECTION = "section"
#: Lines of Slurm, which it writes for a step.
_OF_STEP = lazy(r"(?:slurmstepd|srun|sbatch): ")
#: Sections of one file that are distinguished, at most. The writer of what follows is unknown.
_MOST_SECTIONS = 10_000
#: Characters of a line above a traceback that are read.
_LONGEST_HEADING = 300

SECTION_ROWS = (
    Signature(SECTION, Kind.RECORD, r"==> \S{1,300} <==", ("==> logs/rank_3.log <==",)),
    # Azure ML, and Composer's launcher
    Signature(SECTION, Kind.RECORD, r"Streaming \S{0,100}user_logs/\S", ("Streaming user_logs/std_log_3.txt",)),
    Signature(
        SECTION,
        Kind.RECORD,
        r"-{10}(?:Begin|End) global rank \d{1,6} STD(?:OUT|ERR)-{10}",
        ("----------Begin global rank 3 STDERR----------",),
    ),
)
_PATH = lazy(r"(?:==> (?P<file>\S{1,300}) <==|Streaming (?P<log>\S{0,100}user_logs/\S{1,200}))$")
#: What the name of a log has, and that of notes about a LoRA of rank 32 lacks.
_LOG_NAME = lazy(
    r"(?i)(?:.*/)?(?:[^/]*\.(?:log|out|err|stdout|stderr)(?:\.[\w.]{1,12})?"
    r"|(?:[^/]*[-_.])?(?:logs?|std(?:out|err)|output|console|train\w*|workers?)(?:[-_.\d][^/]*)?"
    r"|(?:global|local|world)?[-_]?rank[-_.]?\d[^/]*)$"
)
_OUTPUT = lazy(r"-{10}(?P<edge>Begin|End) global rank (?P<rank>\d{1,6}) STD(?:OUT|ERR)-{10}$")

_RANK = r"(?:[Gg]lobal |GLOBAL )?(?:[Rr]ank|RANK)[ :=#_\[-]{0,2}(?P<rank>\d{1,6})"
#: A rank and nothing else: ``[Rank 0]``, ``=== rank 3 ===``, ``Rank 3 traceback:``, ``[Rank 0 Error Snippet]:``.
_ALONE = lazy(
    r"[\s=*#>~-]*[\[(]?" + _RANK + r"(?: [Ee]rror [Ss]nippet| [Tt]raceback| [Ee]rror)?[\])]?\s*:?[\s=*#<~-]*$"
)
#: A statement that one rank failed; torch_xla's names the number of the process.
_FAILED = lazy(
    r"(?i)(?:\b(?:error|exception|failure|failed|crashed|traceback)\b[^.:\n]{0,20} (?:on|in|of|from|at) "
    + _RANK
    + r"\b"
    r"|\b"
    + _RANK.replace("<rank>", "<of>")
    + r"\]?:? (?:has )?(?:failed|crashed|raised|threw|encountered|hit|caught|got) (?:with |an? |the )?"
    r"(?:\w+ )?(?:error|exception)\b|\b"
    + _RANK.replace("<rank>", "<only>")
    + r"\]? (?:has )?(?:failed|crashed|died)[.!]*$"
    # an exception whose message begins with the rank that raised it
    r"|^(?:\w+\.)*\w+(?:error|exception): \[?" + _RANK.replace("<rank>", "<raised>") + r"\]?: "
    r"|^exception in device=\w{2,5}:(?P<device>\d{1,6}):)"
)
_WITH_A_RANK = r"tensors?|matri(?:x|ces)|arrays?|operands?|(?:q?lo|do)ra|adapters?|documents?"
#: Words before a rank that is a tensor's or an adapter's, or that of a process which the writer lost.
_NOT_FAILED = lazy(
    rf"(?i)\b(?:{_WITH_A_RANK}|sockets?|connect\w*|communicat\w*|peers?|send\w*|receiv\w*|recv\w*|wait\w*)\b"
)
_ITS_RANK = lazy(rf"(?i) (?:{_WITH_A_RANK})\b")
#: Characters before a statement in which such words count.
_BEFORE = 24
_ANY_RANK = lazy(r"(?i)\brank[ :=#_\[-]{0,2}(\d{1,6})\b")
#: A line that begins with a time or a level is a script's own logger's, which prints a traceback below its message.
_LOGGED = lazy(r"\[?(?:\d{4}[-/]\d\d|\d\d[-/:]\d\d|\d\d-[A-Z][a-z]{2}-|(?:ERROR|CRITICAL|FATAL)\b)")
_BAD = lazy(r"\b(?:ERROR|CRITICAL|FATAL|EXCEPTION|[Ee]xception|[Ee]rror|[Ff]ailed|FAILED|crashed)\b")


def stated_rank(text: str) -> int | None:
    """Return the rank that a line reports as failed, or None where it names another one as well."""
    match = _ALONE.match(text) or _FAILED.search(text)
    if match is None:
        return None
    start, end = match.span()
    if _NOT_FAILED.search(text[max(0, start - _BEFORE) : end]) or _ITS_RANK.match(text[end:]):
        return None
    found = match.groupdict()
    rank = int(next(number for number in found.values() if number is not None))
    return rank if {int(number) for number in _ANY_RANK.findall(text)} <= {rank} else None


def named_above(above: str, prefixes: Prefixes) -> LineAuthor | None:
    """Return the process of a traceback that names none, by the line above it: a heading, or a logger's message."""
    line = above.strip()[:_LONGEST_HEADING]
    if not line:
        return None
    head = prefixes.parse(line)
    if _LOGGED.match(line) and head.who.rank is not None and _BAD.search(line):
        return LineAuthor(head.who.rank)
    if head.who == UNKNOWN_WRITER or _ALONE.match(line):
        rank = stated_rank(line if _ALONE.match(line) else head.text)
        return None if rank is None else LineAuthor(rank)
    return None


class Sections:
    """The parts of a file that a heading names the writer of."""

    def __init__(self) -> None:
        self._lines: list[int] = []
        self._writers: list[LineAuthor] = []

    def copy(self) -> Sections:
        """Return sections that take more without changing these."""
        other = Sections()
        other._lines, other._writers = self._lines[:], self._writers[:]
        return other

    def begin(self, line: int, text: str) -> bool:
        """Note a heading; return whether another section begins."""
        text = text.strip()
        path, output = _PATH.match(text), _OUTPUT.match(text)
        if len(self._lines) > _MOST_SECTIONS:
            return False
        if output is not None:
            who = LineAuthor(int(output["rank"])) if output["edge"] == "Begin" else UNKNOWN_WRITER
        elif path is not None:
            name = path["file"] or path["log"]
            who = who_by_name(name)[0] if _LOG_NAME.match(name) else UNKNOWN_WRITER
        else:
            return False
        self._lines.append(line)
        self._writers.append(who if len(self._lines) <= _MOST_SECTIONS else UNKNOWN_WRITER)
        return True

    def events(self, events: Sequence[Event]) -> tuple[Event, ...]:
        """Return events with the writer of their section."""
        return tuple(
            event if _OF_STEP.match(event.text) else event._replace(who=filled(event.who, self._writer(event.line)))
            for event in events
        )

    def rank_streams(self, streams: Sequence[RankStream], lines: int) -> tuple[RankStream, ...]:
        """Return streams with those of the sections."""
        known = {stream.who for stream in streams}
        ends = [*(line - 1 for line in self._lines), lines][1:]
        own = {
            who: RankStream(who, 0, first, last, None, "")
            for first, last, who in zip(self._lines, ends, self._writers, strict=True)
            if who not in known and who != UNKNOWN_WRITER
        }
        return (*streams, *own.values())

    def _writer(self, line: int) -> LineAuthor:
        place = bisect(self._lines, line)
        return self._writers[place - 1] if place else UNKNOWN_WRITER
