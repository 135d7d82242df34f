"""Members of a zip archive: their bytes as a source, and what readers would disagree about."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

from .source_bytes import ByteSource, PartSource
from .stream_collector import Collector, ScanItem, counted, shown
from .unpacking import BrokenError, UnpackedSource
from .zip_directory import (
    DEFLATED,
    DESCRIPTOR,
    ENCRYPTED,
    PATCHED,
    STORED,
    STRONG,
    USUAL_FLAGS,
    UTF8,
    LocalHeader,
    Member,
    local_header,
)

#: Compression methods that zipfile knows, other than stored and deflated (APPNOTE 4.4.5).
_OTHER_METHODS = {12: "bz2", 14: "lzma", 93: "zstd"}
#: Sizes without meaning: 0 where a data descriptor follows, all ones where a zip64 field does.
_UNSTATED = (0, 0xFFFFFFFF)


class Opened:
    """A member that can be read."""

    def __init__(self, content: ByteSource, local: LocalHeader, flagged: str | None = None) -> None:
        self.content = content
        self.local = local
        #: why readers refuse it because of its flags; it is read all the same
        self.flagged = flagged


def open_member(source: ByteSource, member: Member, notes: Collector, *, torch: bool = False) -> Opened | str:
    """The bytes of a member, or why they can't be had.

    :param torch: take as many bytes of a stored member as torch's reader does: what it unpacks to, where others take
        what it is packed in
    """
    flagged = None
    if member.flags & (ENCRYPTED | STRONG):
        flagged = "it is marked as encrypted"
    elif member.flags & PATCHED:
        flagged = "it is marked as a patch"
    local = local_header(source, member.header)
    if local is None:
        return f"no member begins at offset {member.header:,}, where the directory has one"
    packed: ByteSource = PartSource(source, local.data, member.packed)
    if member.method == STORED:
        return Opened(PartSource(source, local.data, member.size) if torch else packed, local, flagged)
    kind = "deflate" if member.method == DEFLATED else _OTHER_METHODS.get(member.method)
    if kind is None:
        return f"it is compressed by method {member.method}, which is not read here"
    try:
        if kind == "lzma":
            packed = _with_lzma_header(packed, member.size)
        return Opened(UnpackedSource(packed, kind, notes, size=member.size), local, flagged)
    except BrokenError as error:
        return str(error)


class _JoinedSource:
    """A few bytes in front of another source."""

    def __init__(self, head: bytes, rest: ByteSource) -> None:
        self._head = head
        self._rest = rest
        self.size = len(head) + rest.size

    def read(self, offset: int, size: int) -> bytes:
        """See :class:`.ByteSource`."""
        front = self._head[offset : offset + size]
        behind = max(0, offset - len(self._head))
        return front + self._rest.read(behind, size - len(front)) if len(front) < size else front


def _with_lzma_header(packed: ByteSource, size: int) -> ByteSource:
    """The bytes of a member of method 14 as an ``.lzma`` file: the same properties, then the size (APPNOTE 5.8)."""
    head = packed.read(0, 9)
    if len(head) < 9 or head[2:4] != b"\x05\0":
        raise BrokenError("the header of its lzma data is damaged")
    return _JoinedSource(head[4:9] + size.to_bytes(8, "little"), PartSource(packed, 9, packed.size))


def read_member(item: ScanItem, member: Member, path: str, role: str | None, *, torch: bool = False) -> None:
    """Read a member by its content; where a pickle is in it, compare what readers see of it."""
    notes = item.notes
    opened = open_member(item.source, member, notes, torch=torch)
    if isinstance(opened, str):
        notes.not_opened(f"{shown(path)}: {opened}")
        return
    before = len(notes.streams)
    form = item.read_inner(opened.content, path, "hidden" if opened.flagged else role)
    if len(notes.streams) > before:
        compare(member, opened, notes, path)
    elif opened.flagged and form in ("", "unknown"):
        notes.not_opened(f"{shown(path)}: {opened.flagged}")


def compare(member: Member, opened: Opened, notes: Collector, label: str) -> None:
    """Note what readers would disagree about in a member; it is read to its end, once, for the checksum."""
    local = opened.local

    def disagree(what: str) -> None:
        notes.report("disagree", what, member=label, offset=member.header, fix=_FIX)

    if local.raw_name != member.raw_name:
        disagree(
            f"the directory calls it {shown(member.raw_name)!r}, the header before its bytes {shown(local.raw_name)!r}:"
            " torch loads it, other readers refuse it or see another file"
        )
    odd_flags = (member.flags | local.flags) & ~USUAL_FLAGS
    if odd_flags:
        disagree(f"its flags have unusual bits ({odd_flags:#06x}): some readers refuse it, others load it")
    elif (member.flags ^ local.flags) & ~(DESCRIPTOR | UTF8):
        disagree(f"its flags are {member.flags:#06x} in the directory and {local.flags:#06x} before its bytes")
    if local.method != member.method:
        disagree(f"the directory states compression method {member.method}, the header before its bytes {local.method}")
    for thing, here, there in (("size", member.size, local.size), ("packed size", member.packed, local.packed)):
        if there not in _UNSTATED and here != there:
            disagree(f"its {thing} is {here:,} in the directory and {there:,} before its bytes")
    _compare_bytes(member, opened, notes, disagree)


_FIX = "don't load it; have its author save it again, or load the weights from a safetensors file"


def _compare_bytes(member: Member, opened: Opened, notes: Collector, disagree: Callable[[str], None]) -> None:
    """The part of :func:`compare` that reads the member."""
    content = opened.content
    crc = 0
    if isinstance(content, UnpackedSource):
        crc, size = content.check()
        if content.exhausted:
            return  # noted by the source
        if content.problem is not None:
            disagree(f"{content.problem}: torch loads what comes before, other readers refuse it")
        elif size != member.size:
            disagree(f"it unpacks to {counted(size, 'byte')}, the directory states {member.size:,}")
    else:
        offset = 0
        while part := content.read(offset, 1 << 20):
            crc = zlib.crc32(part, crc)
            offset += len(part)
            if notes.out_of_time():
                return
        if member.packed != member.size:
            disagree(f"it is stored as {counted(member.packed, 'byte')} and stated to unpack to {member.size:,}")
    if crc != member.crc:
        if member.crc == 0 and member.flags & DESCRIPTOR and member.method == STORED:
            notes.report(
                "note",
                "it was written without checksums (torch.serialization.set_crc32_options(False)): torch loads it, zip"
                " tools complain",
            )
        else:
            disagree(
                f"its checksum is wrong (CRC-32 {member.crc:#010x} stated, {crc:#010x} found): torch loads it, other"
                " readers refuse it"
            )


class FrontMember:
    """A member that was found from the front, without the directory."""

    def __init__(self, local: LocalHeader, content: ByteSource, size_known: bool) -> None:
        self.local = local
        #: bytes of it; where its header states nothing, all that follows
        self.content = content
        self.size_known = size_known


def from_the_front(source: ByteSource, stop: int, notes: Collector) -> Iterator[FrontMember]:
    """Yield members in order from the first byte on, as long as their headers state their sizes.

    The last one may have an unknown size. A caller that knows the size can continue with a part of the source.
    """
    at = 0
    while at < stop:
        local = local_header(source, at)
        if local is None or not notes.take_member():
            return
        known = local.packed != 0xFFFFFFFF and (local.packed != 0 or not local.flags & DESCRIPTOR)
        packed = PartSource(source, local.data, local.packed if known else stop - local.data)
        content: ByteSource | None = None
        if local.method == STORED:
            content = packed
        elif local.method == DEFLATED:
            content = UnpackedSource(packed, "deflate", notes, size=local.size if known and local.size else 1 << 62)
        if content is not None:
            yield FrontMember(local, content, known)
        if not known:
            return
        at = local.data + local.packed
        if local.flags & DESCRIPTOR:
            at = after_descriptor(source, at) or stop


def after_descriptor(source: ByteSource, at: int) -> int | None:
    """Offset of the next member behind the bytes of one, past its data descriptor (12, 16, 20 or 24 bytes) if any."""
    behind = source.read(at, 28)
    for skip in (0, 12, 16, 20, 24):
        if behind[skip : skip + 4] == b"PK\x03\x04":
            return at + skip
    return None
