"""Writes small ELF files that have what the loader's tables have: enough to stand for torch's and NCCL's libraries."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

_NEEDED, _STRTAB, _RPATH, _RUNPATH = 1, 5, 15, 29
#: Where the file is said to be in memory: not at 0, so that addresses and places in the file differ.
_BASE = 0x200000


def make_elf(
    *,
    needed: Iterable[str] = (),
    rpath: str | None = None,
    runpath: str | None = None,
    defined: Iterable[str] = (),
    wanted: Iterable[str] = (),
    rodata: bytes = b"",
) -> bytes:
    """A 64-bit little-endian shared library with a dynamic section, dynamic symbols and constants."""
    strings = bytearray(b"\0")

    def text(value: str) -> int:
        place = len(strings)
        strings.extend(value.encode() + b"\0")
        return place

    tags = [(_NEEDED, text(name)) for name in needed]
    for tag, value in ((_RPATH, rpath), (_RUNPATH, runpath)):
        if value is not None:
            tags.append((tag, text(value)))
    symbols = struct.pack("<IBBHQQ", 0, 0, 0, 0, 0, 0)
    for name, section in [(name, 7) for name in defined] + [(name, 0) for name in wanted]:
        symbols += struct.pack("<IBBHQQ", text(name), 0x12, 0, section, 0, 0)
    titles = b"\0.dynamic\0.dynstr\0.dynsym\0.rodata\0.shstrtab\0"
    start = 64 + 2 * 56
    dynamic_place = start
    dynamic_size = (len(tags) + 2) * 16
    places = []
    place = start + dynamic_size
    for part in (bytes(strings), symbols, rodata, titles):
        places.append((place, len(part)))
        place += len(part)
    tags += [(_STRTAB, _BASE + places[0][0]), (0, 0)]
    dynamic = b"".join(struct.pack("<QQ", *tag) for tag in tags)
    programs = struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, place, place, 4096)
    programs += struct.pack("<IIQQQQQQ", 2, 6, dynamic_place, _BASE + dynamic_place, 0, dynamic_size, dynamic_size, 8)
    rows = [(0, 0, 0, 0), (titles.index(b".dynamic"), dynamic_place, dynamic_size, 2)]
    for title, (offset, size), link in zip(
        (b".dynstr", b".dynsym", b".rodata", b".shstrtab"), places, (0, 2, 0, 0), strict=True
    ):
        rows.append((titles.index(title), offset, size, link))
    sections = b"".join(
        struct.pack("<IIQQQQIIQQ", name, 1, 0, 0, offset, size, link, 0, 1, 0) for name, offset, size, link in rows
    )
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, 62, 1, 0, 64, place, 0, 64, 56, 2, 64, len(rows), len(rows) - 1
    )
    return header + programs + dynamic + bytes(strings) + symbols + rodata + titles + sections


def write_elf(root: Path, path: str, data: bytes) -> None:
    """Put a library into a tree."""
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
