"""Zip archives made byte by byte, so that each field can be wrong on its own."""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple


class Entry(NamedTuple):
    """A member and what its two headers say about it; None: the truth."""

    name: str | bytes
    data: bytes = b""
    deflate: bool = False
    flags: int = 0
    crc: int | None = None
    size: int | None = None
    packed: int | None = None
    method: int | None = None
    external: int = 0
    extra: bytes = b""
    local_name: str | bytes | None = None
    local_flags: int | None = None
    local_crc: int | None = None
    local_size: int | None = None
    local_method: int | None = None
    #: bytes between the one before and this one
    before: bytes = b""
    #: listed in the directory
    listed: bool = True
    disk: int = 0


def _bytes(name: str | bytes) -> bytes:
    return name.encode() if isinstance(name, str) else name


def make_zip(
    *entries: Entry,
    comment: bytes = b"",
    count: int | None = None,
    offset_shift: int = 0,
    zip64: bool = False,
    prefix: bytes = b"",
    between: bytes = b"",
    hole: int = 0,
) -> bytes:
    """An archive. ``prefix`` stands in front of it and is counted in no offset; ``between`` before the directory.

    ``hole``: bytes of the last member that are counted and left out, just before the directory.
    """
    body = b""
    directory = b""
    listed = 0
    for entry in entries:
        raw = _bytes(entry.name)
        local = raw if entry.local_name is None else _bytes(entry.local_name)
        stored = entry.data
        if entry.deflate:
            packer = zlib.compressobj(9, zlib.DEFLATED, -15)
            stored = packer.compress(entry.data) + packer.flush()
        method = (8 if entry.deflate else 0) if entry.method is None else entry.method
        crc = zlib.crc32(entry.data) if entry.crc is None else entry.crc
        size = len(entry.data) if entry.size is None else entry.size
        packed = len(stored) if entry.packed is None else entry.packed
        body += entry.before
        header = len(body)
        body += struct.pack(
            "<4s5H3I2H",
            b"PK\x03\x04",
            20,
            entry.flags if entry.local_flags is None else entry.local_flags,
            method if entry.local_method is None else entry.local_method,
            0,
            0,
            crc if entry.local_crc is None else entry.local_crc,
            packed,
            size if entry.local_size is None else entry.local_size,
            len(local),
            0,
        )
        body += local + stored
        if not entry.listed:
            continue
        listed += 1
        directory += struct.pack(
            "<4s6H3I5H2I",
            b"PK\x01\x02",
            20,
            20,
            entry.flags,
            method,
            0,
            0,
            crc,
            packed,
            size,
            len(raw),
            len(entry.extra),
            0,
            entry.disk,
            0,
            entry.external,
            header + offset_shift,
        )
        directory += raw + entry.extra
    body += between
    start = len(body) + hole
    count = listed if count is None else count
    end = b""
    if zip64:
        at = start + len(directory)
        end += struct.pack("<4sQ2H2I4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, len(directory), start)
        end += struct.pack("<4sIQI", b"PK\x06\x07", 0, at, 1)
    end += struct.pack(
        "<4s4H2IH",
        b"PK\x05\x06",
        0,
        0,
        count,
        count,
        len(directory),
        min(start + offset_shift, 0xFFFFFFFF),
        len(comment),
    )
    return prefix + body + directory + end + comment


def checkpoint(pickled: bytes, *more: Entry, top: str = "archive", version: bytes = b"3\n", **fields: object) -> bytes:
    """The least that torch.load reads: ``data.pkl`` and ``version`` in a folder."""
    return make_zip(Entry(f"{top}/data.pkl", pickled), Entry(f"{top}/version", version), *more, **fields)  # type: ignore[arg-type]
