"""The results so far of one file, and what its scan may still cost. All readers of containers share it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from . import machine
from .picklefile import Anomaly, PickleFile, Stream
from .source_bytes import ByteSource, ScanLimits
from .trace import Trace

#: Streams of a file that are kept as they are; of more, only those that differ.
STREAMS_KEPT = 256
#: Streams kept in all: a file of a million different small pickles must not fill the memory.
STREAMS_AT_MOST = 5_000
#: Anomalies and lines about what was not opened that are kept; more add nothing.
LINES_KEPT = 200


def shown(name: str | bytes, limit: int = 120) -> str:
    """A name out of a file, printable in one line: control characters escaped, the middle cut out of long ones."""
    text = name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else name
    if len(text) > limit:
        text = text[: limit // 2] + "…" + text[-(limit - limit // 2 - 1) :]
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


def counted(count: int, thing: str) -> str:
    """``1 byte``, ``1,024 bytes``."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


class ScanItem(NamedTuple):
    """A file, or a member of an archive, while it is read."""

    source: ByteSource
    #: its path in the archive; None for the file itself
    label: str | None
    #: depth in nested archives
    depth: int
    notes: Collector
    #: the role of its streams, if it is not the one they have in a file of their own
    role: str | None = None

    @property
    def name(self) -> str:
        """The label for a message."""
        return self.label or "the file"

    def path(self, name: str) -> str:
        """Return the label of a member."""
        return name if self.label is None else f"{self.label}/{name}"

    def report(self, kind: str, what: str, *, offset: int | None = None, fix: str | None = None) -> None:
        """Record an anomaly of this item."""
        self.notes.report(kind, what, offset=offset, member=self.label, fix=fix)

    def read_inner(self, source: ByteSource, label: str | None, role: str | None) -> str:
        """Read the content of a member. Return its format in users' words, ``""`` if it is of no known format."""
        return self.notes.read_content(ScanItem(source, label, self.depth + 1, self.notes, role))


class Collector:
    """The notes about one file, its nested archives included."""

    def __init__(self, limits: ScanLimits, read_content: Callable[[ScanItem], str]) -> None:
        self.limits = limits
        self.read_content = read_content
        self.streams: list[Stream] = []
        self.anomalies: list[Anomaly] = []
        self.absent: list[str] = []
        self.unopened: list[str] = []
        #: bytes that may still be unpacked, those that are unpacked again included
        self.unpacked_left = limits.unpacked_bytes
        self.members_left = limits.members
        #: where the file itself ends for a reader that starts at the front, as far as that is known
        self.content_end = 0
        #: whether what is being read is known to end where its source ends
        self.ends_known = True
        self._opcodes_left = limits.opcodes
        self._deadline = time.monotonic() + limits.seconds
        self._seen: set[object] = set()
        self._alike = 0

    def seconds_left(self) -> float:
        """Not below 0."""
        return max(0.0, self._deadline - time.monotonic())

    def out_of_time(self) -> bool:
        """Whether the time for this file is spent; it is noted, once, as something that was not opened."""
        if self.seconds_left() > 0:
            return False
        self.not_opened(f"the rest was not checked: the {self.limits.seconds:g} s for one file are spent")
        return True

    def take_member(self) -> bool:
        """Whether one more member may be checked; if not, that is noted."""
        if self.members_left <= 0:
            self.not_opened(f"the rest was not checked: more than {self.limits.members:,} members")
            return False
        self.members_left -= 1
        return not self.out_of_time()

    def trace(self, source: ByteSource, start: int = 0, opcodes: int | None = None) -> Trace:
        """Run the machine on a pickle within what is left for this file. Raises OSError where reading fails."""
        allowed = self._opcodes_left if opcodes is None else min(opcodes, self._opcodes_left)
        limits = self.limits._replace(opcodes=allowed, seconds=self.seconds_left())
        trace = machine.run(source, start, limits)
        self._opcodes_left = max(0, self._opcodes_left - trace.steps)
        return trace

    def add(self, member: str | None, reader: str, trace: Trace, role: str = "object") -> None:
        """Note a stream; of very many alike ones the first are kept."""
        stream = Stream(None if member is None else shown(member, 300), reader, trace, role)
        if len(self.streams) >= STREAMS_KEPT:
            signature = _signature(stream)
            if signature in self._seen:
                self._alike += 1
                return
            if len(self.streams) >= STREAMS_AT_MOST:
                self.not_opened(f"more than {STREAMS_AT_MOST:,} pickles that differ: the others were not judged")
                return
        self._seen.add(_signature(stream))
        self.streams.append(stream)

    def report(
        self, kind: str, what: str, *, offset: int | None = None, member: str | None = None, fix: str | None = None
    ) -> None:
        """Note something that is not as it should be, each once."""
        label = None if member is None else shown(member, 300)
        anomaly = Anomaly(what, kind, offset, label, fix)
        # an empty notebook of its own for each kind: a thousand notes must not push out what readers disagree about
        if sum(one.kind == kind for one in self.anomalies) < LINES_KEPT and anomaly not in self.anomalies:
            self.anomalies.append(anomaly)

    def not_opened(self, why: str) -> None:
        """Note what could not be read, each once: it makes the file incomplete."""
        line = shown(why, 1000)  # names of members stand in it
        if len(self.unopened) < LINES_KEPT and line not in self.unopened:
            self.unopened.append(line)

    def lacks(self, storage: str) -> None:
        """Note a storage that a stream requests and the container does not hold."""
        if len(self.absent) < LINES_KEPT:
            self.absent.append(shown(storage))

    def result(self, path: str, form: str, size: int, *, executes_nothing: bool = False) -> PickleFile:
        """The fact about the file."""
        if self._alike:
            self.report("note", f"{counted(self._alike, 'more pickle')} that name the same as those listed")
        return PickleFile(
            path=path,
            format=form,
            size=size,
            streams=tuple(self.streams),
            anomalies=tuple(self.anomalies),
            storages_absent=tuple(self.absent),
            unopened=tuple(self.unopened),
            executes_nothing=executes_nothing and not self.streams and not self.unopened,
        )


def _signature(stream: Stream) -> object:
    """What judges check in a trace, without its offsets and counts: equal ones get the same verdict."""
    trace = stream.trace
    return hash(
        (
            stream.reader,
            stream.role,
            trace.protocol,
            trace.ended,
            trace.problem and trace.problem.why,
            frozenset(trace.opcodes),
            frozenset(naming.what for naming in trace.globals),
            frozenset((call.function, call.opcode, call.text) for call in trace.calls),
            frozenset((write.opcode, write.target, write.of, write.names) for write in trace.writes),
            frozenset(unresolved.why for unresolved in trace.unresolved),
            frozenset(storages.location for storages in trace.storages),
            frozenset(unresolved.why for unresolved in trace.foreign_ids),
            frozenset(trace.keys.prefixes),
            trace.result,
        )
    )
