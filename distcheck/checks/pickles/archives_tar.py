"""Read tar archives header by header: the members and where their bytes are. Nothing is written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .formats import tar_checksum_fits
from .source_bytes import ByteSource
from .stream_collector import Collector

BLOCK = 512
#: Types of members (POSIX.1-2001, GNU tar 1.35): links, devices, folders and pipes have no bytes, whatever they state;
#: what is not known is taken for a file, as tarfile does.
_WITHOUT_BYTES = (b"1", b"2", b"3", b"4", b"5", b"6")
_SPARSE = b"S"
_LONG_NAME, _LONG_LINK = b"L", b"K"
_PAX, _PAX_GLOBAL = frozenset(b"xX"), b"g"
#: Keys of a global header that change what a member is; real ones hold comments and times.
_FOR_ALL = frozenset({"path", "size"})
#: Longer names or extended headers are not read.
_LONGEST = 1 << 16


class TarMember(NamedTuple):
    """A file in a tar archive."""

    name: str
    #: offset of its first byte in the archive
    data: int
    #: bytes
    size: int


class TarError(NamedTuple):
    """Why the archive could not be followed any further."""

    why: str
    offset: int
    #: whether it is our reader that gives up, on something that others read
    ours: bool = False


def tar_members(source: ByteSource, notes: Collector) -> Iterator[TarMember | TarError]:
    """Yield the files of the archive in order, without links, devices and folders. A TarError comes last."""
    at = 0
    name: str | None = None
    size: int | None = None
    while at < source.size:
        header = source.read(at, BLOCK)
        if not header.strip(b"\0"):
            return
        if len(header) < BLOCK or not tar_checksum_fits(header):
            yield TarError("the next header is damaged or cut off", at)
            return
        stated = _number(header[124:136])
        if stated is None:
            yield TarError("a member has no readable size", at)
            return
        kind = header[156:157]
        if not notes.take_member():
            return
        data = at + BLOCK
        length = stated if size is None or kind in (_LONG_NAME, _LONG_LINK) or kind[0] in _PAX else size
        if kind in (_LONG_NAME, _LONG_LINK) or kind[0] in _PAX or kind == _PAX_GLOBAL:
            if length > _LONGEST:
                yield TarError("an extended header is too long", at, ours=True)
                return
            content = source.read(data, length)
            if kind == _LONG_NAME:
                name = content.split(b"\0", 1)[0].decode("utf-8", "backslashreplace")
            elif kind[0] in _PAX:
                records = _pax(content)
                name = records.get("path", name)
                if "size" in records:
                    if not records["size"].isdecimal() or len(records["size"]) >= 20:
                        yield TarError("a member has no readable size", at)
                        return
                    size = int(records["size"])
                if any(key.startswith("GNU.sparse.") for key in records):
                    yield TarError("a sparse member is not read", at, ours=True)
                    return
            elif kind == _PAX_GLOBAL and not _FOR_ALL.isdisjoint(_pax(content)):
                yield TarError("a header gives all members after it one name or size", at, ours=True)
                return
        else:
            if kind == _SPARSE:
                yield TarError("a sparse member is not read", at, ours=True)
                return
            if kind not in _WITHOUT_BYTES:
                yield TarMember(name if name is not None else _name(header), data, length)
                if data + length > source.size:
                    yield TarError("it is cut off in its last member", source.size)
                    return
            else:
                length = 0
            name = size = None
        at = data + (length + BLOCK - 1) // BLOCK * BLOCK


def _name(header: bytes) -> str:
    name = header[:100].split(b"\0", 1)[0]
    prefix = header[345:500].split(b"\0", 1)[0] if header[257:263] == b"ustar\0" else b""
    return (prefix + b"/" + name if prefix else name).decode("utf-8", "backslashreplace")


def _number(field: bytes) -> int | None:
    """Octal digits, or, with the highest bit set, a binary number (GNU)."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    if field[0] == 0xFF:
        return None
    digits = field.split(b"\0", 1)[0].strip()
    if digits.strip(b"01234567"):
        return None
    return int(digits, 8) if digits else 0


def _pax(content: bytes) -> dict[str, str]:
    """Records ``length key=value\\n``; reading stops at the first that is damaged."""
    found: dict[str, str] = {}
    at = 0
    while at < len(content):
        space = content.find(b" ", at, at + 20)
        digits = content[at:space] if space > 0 else b""
        if not digits.isdigit():
            break
        length = int(digits)
        record = content[space + 1 : at + length]
        if length <= len(digits) + 1 or not record.endswith(b"\n") or b"=" not in record:
            break
        key, _, value = record[:-1].partition(b"=")
        found[key.decode("utf-8", "replace")] = value.decode("utf-8", "backslashreplace")
        at += length
    return found
