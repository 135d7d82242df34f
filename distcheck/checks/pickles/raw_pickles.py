"""Read plain pickle files of any protocol, with one pickle or several in a row."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from .formats import LEGACY_NUMBER
from .opcodes import HIGHEST_PROTOCOL
from .source_bytes import ByteSource, BytesSource, PartSource, ScanLimits
from .stream_collector import Collector, ScanItem, counted
from .trace import Global, Trace

#: What ``.metadata`` of a distributed checkpoint unpickles to (torch/distributed/checkpoint/metadata.py, torch 2.0 on).
METADATA = ("torch.distributed.checkpoint.metadata", "Metadata")
#: Opcodes and seconds after which a file of a folder is taken for a pickle and left to the scan with its larger limits.
_TRIAL = 50_000
_TRIAL_S = 10.0
#: Bytes that stand as text in a stream of protocol 2 are checked up to this many.
_LARGEST_TEXT = 8 << 20
#: Pickles of plain data in front of one that names something, in a file that begins like none.
_IN_FRONT = 8
_EXTENSIONS = frozenset({"EXT1", "EXT2", "EXT4"})
#: Signs that text has between its words and names of modules hardly ever have; without a call a blank is one as well.
_BETWEEN, _BETWEEN_OR_BLANK = re.compile(r"[^\w.+@~ -]"), re.compile(r"[^\w.+@~-]")
_BLANK = b"\0 \t\r\n"


def begins_pickle(source: ByteSource) -> bool:
    """Whether a source begins a pickle, or may: it is followed as far as an unpickler reads, up to 50,000 opcodes.

    Raises OSError where reading fails.
    """
    from . import machine

    limits = ScanLimits(opcodes=_TRIAL, seconds=_TRIAL_S)
    trace = machine.run(source, 0, limits)
    return begins_here(source, trace, lambda at: machine.run(source, at, limits))


def is_pickle(trace: Trace, first: bytes, behind: bytes) -> bool:
    """Whether what was followed is a pickle, and not text or data that happens to begin like one.

    :param first: the first two bytes of the stream
    :param behind: some bytes after the last that was understood
    """
    if first[:1] == b"\x80" and first[1:] and first[1] <= HIGHEST_PROTOCOL:
        return trace.ended != "broken" or len(trace.opcodes) > 2
    if trace.globals:
        # "copy\nfile\n" begins like GLOBAL too: a name alone counts only if the stream comes to its end. What the first
        # name leads to has happened before an unpickler stops at a later one that is none
        first_named = min(trace.globals, key=lambda naming: naming.offset)
        called = bool(trace.calls)
        if called and trace.ended == "stop":  # no text does that; a file may be called "!!.py"
            return bool(first_named.what.name) and all(first_named.what.module.split("."))
        return is_importable(first_named.what, called=called) and (called or trace.ended == "stop")
    if trace.calls and not _EXTENSIONS.isdisjoint(trace.opcodes):
        return True  # what it calls has no name here
    if trace.ended == "stop":
        return bool(trace.calls) or not behind.strip(_BLANK)
    if trace.ended == "budget":
        return True  # longer than what we may follow: what comes later is not known to be harmless
    # data of protocol 0 without any name, cut off
    return trace.ended == "cut" and len(trace.opcodes) >= 4 and trace.end - trace.start > 16


def holds_pickle(source: ByteSource, notes: Collector) -> bool:
    """Whether a source of no known format is a pickle, or several in a row. Raises OSError where reading fails."""
    return bool(source.size) and begins_here(source, notes.trace(source), partial(notes.trace, source))


def begins_here(source: ByteSource, trace: Trace, follow: Callable[[int], Trace]) -> bool:
    """Whether a source begins with a pickle: the first one is, or one right after it proves it."""
    for _ in range(_IN_FRONT):
        if is_pickle(trace, source.read(trace.start, 2), source.read(trace.end, 64)):
            return True
        if trace.ended != "stop" or trace.end >= source.size:
            return False
        if trace.result == "constant" and is_magic_number(source, trace):
            return True
        trace = follow(trace.end)
    return True  # text and numbers hold no row of so many


def is_magic_number(source: ByteSource, trace: Trace) -> bool:
    """Whether a pickle gives the number that files of torch.save before 1.6 begin with, in whatever opcodes."""
    if trace.start or trace.end > 4096:
        return False
    from .literals import UnreadableError, read_value

    try:
        return bool(read_value(source)[0] == LEGACY_NUMBER)
    except UnreadableError:
        return False


def is_importable(what: Global, *, called: bool = False) -> bool:
    """Whether an import can find this: ``__import__("my-mod")`` does, so that a name needs to be no identifier.

    :param called: it is called; names with a blank count only then, since two lines of text are a name as well
    """
    between = _BETWEEN if called else _BETWEEN_OR_BLANK
    return all(what.module.split(".")) and bool(what.name) and not between.search(what.path)


def follow_appended(item: ScanItem, trace: Trace, *, start: int | None = None) -> None:
    """Follow what stands behind a pickle, as long as it is pickles: ``pickle.load`` stops at the end of the first one.

    :param start: where it stands, if not at the end of ``trace``
    """
    source, notes = item.source, item.notes
    at = trace.end if start is None else start
    # one that some unpicklers break off (an odd number) and others end is followed as these see it
    while "STOP" in trace.opcodes and at < source.size and not notes.out_of_time():
        behind = source.read(at, 64)
        if not behind.strip(_BLANK) and at + len(behind) >= source.size:
            return
        trace = notes.trace(source, at)
        if not begins_here(source, trace, partial(notes.trace, source)):
            if notes.ends_known and not _is_blank(source, at, notes):
                item.report(
                    "disagree",
                    f"after its end: {counted(source.size - at, 'byte')} that are no pickle, which no reader checks",
                    offset=at,
                    fix="have its author save it again, without what was added",
                )
            return
        add_stream(item, "pickle", trace, item.role or "appended")
        at = trace.end


def _is_blank(source: ByteSource, at: int, notes: Collector) -> bool:
    """Whether only zeros and blanks follow: what a file was padded with."""
    while part := source.read(at, 1 << 20):
        if part.strip(_BLANK) or notes.out_of_time():
            return False
        at += len(part)
    return True


def add_stream(item: ScanItem, reader: str, trace: Trace, role: str) -> None:
    """Note a stream and read what it holds for another loader: the judging modules rely on this."""
    item.notes.add(item.label, reader, trace, role)
    read_nested(item, trace)


def read_nested(item: ScanItem, trace: Trace) -> None:
    """Read the files that a stream holds as bytes and hands to torch to be loaded (``_load_from_bytes``)."""
    source, notes, name = item.source, item.notes, item.label or "the pickle"
    for nested in trace.nested:
        if not notes.take_member():
            return
        content: ByteSource = PartSource(source, nested.offset, nested.size)
        if nested.encoding == "latin-1":
            if nested.size > _LARGEST_TEXT:
                notes.not_opened(f"{name}: {counted(nested.size, 'byte')} of text that it has torch load")
                continue
            try:
                text = source.read(nested.offset, nested.size).decode("utf-8", "surrogatepass")
                content = BytesSource(text.encode("latin-1"))
            except UnicodeError:
                notes.not_opened(f"{name}: text that it has torch load and that is no latin-1")
                continue
        if not item.read_inner(content, item.label, "nested"):
            notes.not_opened(f"{name}: bytes that it has torch load are of no format that is known here")
