"""The directory of a zip archive as two kinds of reader see it: torch's (miniz) and Python's zipfile.

They differ in where they search for it, in which of two equal names they take, and in what they accept. A file made to
differ shows a scanner and a loader different content. Only the end of the file and the directory are read.

The rules are those of ``caffe2/serialize/inline_container.cc`` and miniz 3.0.2 in torch 2.13, and of ``zipfile.py`` in
Python 3.10 to 3.14; APPNOTE.TXT 6.3.10 for the records.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .source_bytes import ByteSource, PartSource

LOCAL = b"PK\x03\x04"
CENTRAL = b"PK\x01\x02"
END = b"PK\x05\x06"
END64 = b"PK\x06\x06"
LOCATOR64 = b"PK\x06\x07"
#: A comment has at most 65,535 bytes, the record itself 22.
TAIL = 65_535 + 22
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_LOCAL = struct.Struct("<4s5H3I2H")
_END = struct.Struct("<4s4H2IH")
_END64 = struct.Struct("<4sQ2H2I4Q")
_LOCATOR64 = struct.Struct("<4sIQI")
_NO_32 = 0xFFFFFFFF
#: Bytes of the directory read in one go.
_WINDOW = 1 << 18

ENCRYPTED, DESCRIPTOR, PATCHED, STRONG, UTF8, MASKED = 0x1, 0x8, 0x20, 0x40, 0x800, 0x2000
#: Flag bits that harmless writers set: level of compression, data descriptor, names in UTF-8.
USUAL_FLAGS = 0x2 | 0x4 | DESCRIPTOR | UTF8
STORED, DEFLATED = 0, 8


class Member(NamedTuple):
    """One entry of the directory. Sizes and offsets in bytes."""

    raw_name: bytes
    method: int
    flags: int
    crc: int
    packed: int
    size: int
    #: of its local header, from the start of the file
    header: int
    external: int
    #: its index in the directory, from 0
    place: int
    #: number of the disk that it is on: 0 (or 1) but for archives in parts
    disk: int = 0
    #: whether its sizes stand in a zip64 field
    large: bool = False

    @property
    def name(self) -> str:
        """As zip tools show it: UTF-8 where it is that, else code page 437."""
        try:
            return self.raw_name.decode("utf-8")
        except UnicodeDecodeError:
            return self.raw_name.decode("cp437")

    @property
    def is_folder(self) -> bool:
        """As torch's reader decides; such an entry has no bytes for it."""
        return self.raw_name.endswith(b"/") or bool(self.external & 0x10)


class Directory(NamedTuple):
    """Where one kind of reader finds the directory."""

    #: offset of its first entry in the file
    start: int
    #: bytes
    size: int
    #: how many entries the record at the end promises
    promised: int
    #: what is added to the offsets that entries state: bytes before the archive
    shift: int
    #: offset of the record at the end
    end: int
    #: bytes after that record
    comment: int


class LocalHeader(NamedTuple):
    """What stands before the bytes of a member."""

    raw_name: bytes
    method: int
    flags: int
    crc: int
    packed: int
    size: int
    #: offset of the member's first byte
    data: int


class BadDirectoryError(Exception):
    """The directory can't be read; the text gives the reason."""


def ends(source: ByteSource) -> list[int]:
    """Offsets of all that looks like a record at the end of an archive, in the last 64 KiB; the last one first."""
    start = max(0, source.size - TAIL)
    tail = source.read(start, TAIL)
    found = []
    at = tail.rfind(END)
    while at >= 0:
        if len(tail) - at >= _END.size:
            found.append(start + at)
        at = tail.rfind(END, 0, at)
    return found


def torch_directory(source: ByteSource, end: int) -> Directory:
    """Where torch's reader finds it, given the last record at the end.

    Raises :class:`BadDirectoryError` where it refuses the file.
    """
    record = _END.unpack(source.read(end, _END.size))
    _, disk, first_disk, here, count, size, start, _comment = record
    if end >= _LOCATOR64.size + _END64.size:
        locator = _LOCATOR64.unpack(source.read(end - _LOCATOR64.size, _LOCATOR64.size))
        if locator[0] == LOCATOR64:
            if locator[2] > source.size - _END64.size:
                raise BadDirectoryError("its zip64 record lies outside of the file")
            large = _END64.unpack(source.read(locator[2], _END64.size))
            if large[0] == END64:
                if large[1] < _END64.size - 12 or locator[3] != 1:
                    raise BadDirectoryError("its zip64 record is damaged")
                disk, first_disk, here, count, size, start = large[4:]
                if count > _NO_32 or here > _NO_32 or size > _NO_32:
                    raise BadDirectoryError("its zip64 record promises more than 4,294,967,295 members or bytes")
    if count != here or ((disk | first_disk) and (disk, first_disk) != (1, 1)):
        raise BadDirectoryError("it is split over several disks")
    if size < count * _CENTRAL.size:
        raise BadDirectoryError(f"a directory of {size:,} bytes can't hold {count:,} members")
    if start + size > source.size:
        raise BadDirectoryError("its directory lies outside of the file")
    return Directory(start, size, count, 0, end, source.size - end - _END.size)


def usual_directory(source: ByteSource, end: int) -> Directory:
    """Where zipfile finds it: just before the record at the end, whatever offset the record states."""
    _, _disk, _first, _here, count, size, start, comment = _END.unpack(source.read(end, _END.size))
    before = end
    if end >= _LOCATOR64.size + _END64.size:
        locator = _LOCATOR64.unpack(source.read(end - _LOCATOR64.size, _LOCATOR64.size))
        if locator[0] == LOCATOR64:
            at = end - _LOCATOR64.size - _END64.size
            large = _END64.unpack(source.read(at, _END64.size))
            if large[0] == END64:
                count, size, start = large[7:]
                before = at
    found = before - size
    if found < 0 or found - start < 0:
        raise BadDirectoryError("its directory lies outside of the file")
    return Directory(found, size, count, found - start, end, min(comment, source.size - end - _END.size))


def members(source: ByteSource, directory: Directory) -> Iterator[Member]:
    """The entries, until the bytes of the directory are used up, be they more or fewer than promised.

    Raises :class:`BadDirectoryError` at the first one that is damaged.
    """
    window, window_at = b"", directory.start
    at, index = directory.start, 0
    stop = min(source.size, directory.start + directory.size)
    while stop - at >= _CENTRAL.size:
        inside = at - window_at
        if inside + _CENTRAL.size + 3 * 65_535 > len(window) and window_at + len(window) < stop:
            window = source.read(at, min(_WINDOW + 3 * 65_535, stop - at))
            window_at, inside = at, 0
        if len(window) - inside < _CENTRAL.size:
            raise BadDirectoryError(f"its directory ends in entry {index}")
        (
            signature, _made_by, _needed, flags, method, _time, _date, crc, packed, size, name_size, extra_size,
            comment_size, disk, _internal, external, header,
        ) = _CENTRAL.unpack_from(window, inside)  # fmt: skip
        if signature != CENTRAL:
            if index >= directory.promised:
                return
            raise BadDirectoryError(f"entry {index} of its directory is damaged")
        name_at = inside + _CENTRAL.size
        extra_at = name_at + name_size
        total = _CENTRAL.size + name_size + extra_size + comment_size
        if at + total > stop:
            raise BadDirectoryError(f"its directory ends in entry {index}")
        name = window[name_at:extra_at]
        large = _NO_32 in (packed, size)
        if extra_size and _NO_32 in (packed, size, header):
            size, packed, header = _zip64(window[extra_at : extra_at + extra_size], size, packed, header, index)
        yield Member(name, method, flags, crc, packed, size, header + directory.shift, external, index, disk, large)
        at += total
        index += 1
    if index < directory.promised:
        raise BadDirectoryError(f"its directory ends after {index} of {directory.promised} entries")


def _zip64(extra: bytes, size: int, packed: int, header: int, index: int) -> tuple[int, int, int]:
    """Sizes and offset with what the zip64 field of an entry states in place of those that are all ones."""
    at = 0
    while len(extra) - at >= 4:
        tag, length = struct.unpack_from("<2H", extra, at)
        if at + 4 + length > len(extra):
            raise BadDirectoryError(f"the extra field of entry {index} is damaged")
        if tag == 1:
            values = [one for (one,) in struct.iter_unpack("<Q", extra[at + 4 : at + 4 + length // 8 * 8])]
            wanted = [value == _NO_32 for value in (size, packed, header)]
            if sum(wanted) > len(values):
                raise BadDirectoryError(f"the zip64 field of entry {index} is too short")
            given = iter(values)
            size, packed, header = (
                next(given) if want else value for want, value in zip(wanted, (size, packed, header), strict=True)
            )
            break
        at += 4 + length
    return size, packed, header


def refused_by_torch(member: Member, source: ByteSource) -> str | None:
    """Why torch's reader refuses the whole archive on account of this entry; None where it doesn't.

    miniz checks these as it reads the directory, for all entries, whichever is requested afterwards.
    """
    if member.flags & MASKED:
        return "unsupported encryption"
    if member.disk > 1:
        return "a member on another disk"
    if not member.large and (
        (member.method == STORED and member.size != member.packed) or (member.size and not member.packed)
    ):
        return "a member whose two sizes can't both be true"
    if not member.large and member.header + _LOCAL.size + member.packed > source.size:
        return "a member that lies outside of the file"
    return None


def local_header(source: ByteSource, offset: int) -> LocalHeader | None:
    """The header before a member's bytes; None where there is none."""
    raw = source.read(offset, _LOCAL.size)
    if len(raw) < _LOCAL.size or not raw.startswith(LOCAL):
        return None
    _, _needed, flags, method, _time, _date, crc, packed, size, name_size, extra_size = _LOCAL.unpack(raw)
    name = source.read(offset + _LOCAL.size, name_size)
    return LocalHeader(name, method, flags, crc, packed, size, offset + _LOCAL.size + name_size + extra_size)


def found_by_torch(names: Sequence[bytes], wanted: bytes) -> int | None:
    """Index of the entry that torch's reader gives for a name; None where it gives none.

    Names are compared without case; of equal ones the one is taken on which a binary search over a heap-sorted list
    ends, which need be neither the first nor the last: miniz's sort and search are followed step by step.
    """
    lower = [name.lower() for name in names]
    target = wanted.split(b"\0", 1)[0].lower()
    if lower.count(target) < 2:
        return lower.index(target) if target in lower else None
    order = list(range(len(lower)))
    size = len(order)

    def sift(root: int, end: int) -> None:
        while (child := 2 * root + 1) < end:
            if child + 1 < end and lower[order[child]] < lower[order[child + 1]]:
                child += 1
            if not lower[order[root]] < lower[order[child]]:
                break
            order[root], order[child] = order[child], order[root]
            root = child

    for root in range((size - 2) // 2, -1, -1):
        sift(root, size)
    for end in range(size - 1, 0, -1):
        order[end], order[0] = order[0], order[end]
        sift(0, end)
    low, high = 0, size - 1
    while low <= high:
        middle = (low + high) // 2
        name = lower[order[middle]]
        if name == target:
            return order[middle]
        if name < target:
            low = middle + 1
        else:
            high = middle - 1
    return None


def archives_in_a_row(source: ByteSource, limit: int) -> list[PartSource] | None:
    """Archives that stand one after the other from the first byte to the last, as in a ``.distcp`` file.

    Found from the back: the record at the end of each states how long it is. None where they are fewer than two, more
    than ``limit``, or don't fill the file.
    """
    found: list[PartSource] = []
    stop = source.size
    while stop > 0:
        if len(found) >= limit:
            return None
        part = PartSource(source, 0, stop)
        end = stop - _END.size
        if end < 0 or part.read(end, 4) != END:
            candidates = ends(part) if not found else []
            if not candidates:
                return None
            end = candidates[0]
        try:
            directory = usual_directory(part, end)
        except BadDirectoryError:
            return None
        if source.read(directory.shift, 4) != LOCAL:
            return None
        found.append(PartSource(source, directory.shift, stop - directory.shift))
        stop = directory.shift
    found.reverse()
    return found if len(found) > 1 else None
