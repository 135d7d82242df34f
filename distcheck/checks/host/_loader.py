"""Resolves what the dynamic loader of Linux would find, from files: ELF tables, ld.so.cache, the loader's variables.

Nothing is loaded. It reads 64-bit little-endian ELF (x86-64 and Arm, all that torch's CUDA builds are made for) and
glibc's cache; where a file is anything else the answer is None, which callers must take as "can't be told".
Sources: elf(5), ld.so(8), glibc's ``dl-cache.h`` (format ``glibc-ld.so.cache1.1``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from struct import calcsize, error, iter_unpack, unpack_from
from typing import NamedTuple

from distcheck.core.world import World

#: Folders that the loader tries last (ld.so(8)); everything else that a system has comes from its cache.
DEFAULT_FOLDERS = ("/lib64", "/usr/lib64", "/lib", "/usr/lib")
#: Most that is read of one table of an ELF file: the string table of libtorch_cuda.so (torch 2.13) is below 64 MiB.
LONGEST_TABLE = 128 << 20
#: Most of a single name in a table, and of a list of folders (PATH_MAX).
LONGEST_NAME = 4096

_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NEEDED, _DT_STRTAB, _DT_RPATH, _DT_RUNPATH = 1, 5, 15, 29
_HEADER = "<16sHHIQQQIHHHHHH"
_PROGRAM = "<IIQQQQQQ"
_SECTION = "<IIQQQQIIQQ"
_SYMBOL = "<IBBHQQ"


class Dynamic(NamedTuple):
    """The dynamic section of a shared library: what it needs from the loader."""

    needed: tuple[str, ...]
    #: folders that come before LD_LIBRARY_PATH, and after it, with ``$ORIGIN`` put in
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()


def read_dynamic(world: World, path: str) -> Dynamic | None:
    """Return what a shared library needs; None where the file is missing or no ELF that can be read."""
    try:
        return _read_dynamic(world, path)
    except (OSError, error, ValueError, OverflowError):
        return None


def read_section(world: World, path: str, name: bytes) -> bytes | None:
    """The contents of a section such as ``.rodata``; None where there is none, or no ELF that can be read."""
    try:
        section = next((section for title, section in _sections(world, path) if title == name), None)
        return None if section is None else world.read_at(path, section[4], min(section[5], LONGEST_TABLE))
    except (OSError, error, ValueError, IndexError, OverflowError):
        return None


def read_symbols(world: World, path: str, prefix: str, *, defined: bool) -> frozenset[str] | None:
    """Return the symbols with a prefix that a library defines, or that it needs from others; None if unknown."""
    try:
        sections = _sections(world, path)
        table = next((section for title, section in sections if title == b".dynsym"), None)
        if table is None:
            return None
        texts = sections[table[6]][1]
        symbols = world.read_at(path, table[4], min(table[5], LONGEST_TABLE))
        names = world.read_at(path, texts[4], min(texts[5], LONGEST_TABLE))
        size = calcsize(_SYMBOL)
        start = prefix.encode()
        return frozenset(
            names[symbol[0] : names.index(b"\0", symbol[0])].decode("ascii", "replace")
            for symbol in iter_unpack(_SYMBOL, symbols[: len(symbols) // size * size])
            if (symbol[3] != 0) is defined and names.startswith(start, symbol[0])
        )
    except (OSError, error, ValueError, IndexError, OverflowError):
        return None


def library_path(text: str | None) -> tuple[str, ...]:
    """The folders of a value of LD_LIBRARY_PATH; an empty entry is the working directory, as the loader takes it."""
    return tuple(entry or "." for entry in re.split("[:;]", text)) if text else ()


def preloaded(world: World, text: str | None) -> tuple[str, ...]:
    """The entries of a value of LD_PRELOAD, and those of /etc/ld.so.preload, as they are written."""
    system = world.text_or_empty("/etc/ld.so.preload")
    return tuple(entry for entry in re.split(r"[:\s]+", f"{text or ''} {system}") if entry)


def cached(cache: bytes, name: str) -> tuple[str, ...]:
    """The paths that a loader's cache has for a library, in its order.

    :param cache: the bytes of /etc/ld.so.cache; its names and paths stand in it as texts that end with a zero byte
    """
    found = re.findall(rb"(?<=\0)(/[^\0]*/" + re.escape(name.encode()) + rb")(?=\0)", cache)
    return tuple(dict.fromkeys(path.decode("utf-8", "replace") for path in found))


def search(
    world: World, name: str, variable: str | None, *, before: Iterable[str] = (), after: Iterable[str] = ()
) -> Iterator[tuple[str, str]]:
    """Where a library is found, in the loader's order.

    Each path comes with what leads to it: ``RPATH``, ``LD_LIBRARY_PATH``, ``RUNPATH`` or ``system``.

    :param variable: the value of LD_LIBRARY_PATH
    :param before: folders that come before those of LD_LIBRARY_PATH
    :param after: folders that come after them
    """
    seen = set()
    for origin, folders in (("RPATH", before), ("LD_LIBRARY_PATH", library_path(variable)), ("RUNPATH", after)):
        for folder in folders:
            path = absolute(world, f"{folder}/{name}")
            if path not in seen and world.exists(path):
                seen.add(path)
                yield path, origin
    try:
        cache = world.read_bytes("/etc/ld.so.cache")
    except OSError:
        cache = b""
    for path in (*cached(cache, name), *(f"{folder}/{name}" for folder in DEFAULT_FOLDERS)):
        if path not in seen and world.exists(path):
            seen.add(path)
            yield path, "system"


def absolute(world: World, path: str) -> str:
    """A path without ``..`` and from the root on; a relative one starts at the working directory."""
    if not path.startswith("/"):
        try:
            path = f"{world.working_folder}/{path}"
        except OSError:
            return path
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def _header(world: World, path: str) -> tuple[int, ...]:
    """The ELF header; raises ValueError where it is none of the kind that can be read."""
    header = unpack_from(_HEADER, world.read_at(path, 0, calcsize(_HEADER)))
    # class 2 is 64 bit, data 1 is little-endian
    if header[0][:6] != b"\x7fELF\x02\x01":
        raise ValueError("no 64-bit little-endian ELF file")
    return header


def _sections(world: World, path: str) -> list[tuple[bytes, tuple[int, ...]]]:
    """Names and headers of all sections, in their order."""
    header = _header(world, path)
    size = calcsize(_SECTION)
    table = world.read_at(path, header[6], header[12] * size)
    sections = list(iter_unpack(_SECTION, table[: len(table) // size * size]))
    names = sections[header[13]]
    texts = world.read_at(path, names[4], min(names[5], LONGEST_TABLE))
    return [(texts[section[0] :].split(b"\0", 1)[0], section) for section in sections]


def _read_dynamic(world: World, path: str) -> Dynamic | None:
    header = _header(world, path)
    table = world.read_at(path, header[5], header[10] * calcsize(_PROGRAM))
    programs = list(iter_unpack(_PROGRAM, table[: len(table) // calcsize(_PROGRAM) * calcsize(_PROGRAM)]))
    dynamic = next((program for program in programs if program[0] == _PT_DYNAMIC), None)
    if dynamic is None:
        return None
    words = world.read_at(path, dynamic[2], min(dynamic[5], LONGEST_NAME * 16))
    tags = list(iter_unpack("<QQ", words[: len(words) // 16 * 16]))
    values = dict(reversed(tags))
    # the table's address in memory, as a position in the file
    address = values.get(_DT_STRTAB, 0)
    loaded = [part for part in programs if part[0] == _PT_LOAD and part[3] <= address < part[3] + part[5]]
    if not loaded:
        return None
    start = loaded[0][2] + address - loaded[0][3]

    def text(offset: int) -> str:
        return world.read_at(path, start + offset, LONGEST_NAME).split(b"\0", 1)[0].decode("utf-8", "replace")

    origin = path.rpartition("/")[0]

    def folders(tag: int) -> tuple[str, ...]:
        entries = text(values[tag]).split(":") if tag in values else []
        return tuple(re.sub(r"\$(ORIGIN\b|\{ORIGIN\})", lambda _: origin, entry) for entry in entries if entry)

    return Dynamic(
        tuple(text(value) for tag, value in tags if tag == _DT_NEEDED),
        # the loader takes no notice of RPATH where there is a RUNPATH
        () if _DT_RUNPATH in values else folders(_DT_RPATH),
        folders(_DT_RUNPATH),
    )
