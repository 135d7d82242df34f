"""Keeps what was worked out about a file's bytes, so that the next run need not.

It knows nothing of what it keeps: bytes by the digest of other bytes. Nothing that goes wrong here is an error of the
run: a file that is torn, foreign or not to be read is an empty cache, and of two runs at once each keeps what it found.
Each run adds a file of its own, and takes those of about the same size or less into it, so that few are left and what
is old and large is seldom copied.
"""

from __future__ import annotations

import contextlib
import os
import struct
import sys
import time
import zlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

#: The name of the folder where the user names none; discovery leaves it out.
FOLDER_NAME = ".distcheck_cache"
#: Bytes of a digest; what is shorter or longer can't be kept.
DIGEST_SIZE = 20
#: Most bytes that the files of one version may hold: what was not asked for is dropped first.
LARGEST = 512 * 1024 * 1024
#: Seconds after which the files of another version of the engine, or of another Python, are taken away.
_FORGOTTEN_AFTER_S = 30 * 24 * 3600
_MAGIC = b"distcheck cache 2\n"
#: Of each entry, behind all data: the digest, where the data starts, its length in bytes, and its CRC-32.
_ENTRY = struct.Struct(f"<{DIGEST_SIZE}sQII")
#: The end of a file: where the entries start, how many there are, and their CRC-32.
_TRAILER = struct.Struct("<QII")
#: The text that marks a folder as a cache for programs that make backups (bford.info/cachedir).
_TAG = """Signature: 8a477f597d28d172789f06886806bc55
# This folder holds what distcheck has worked out about source files. It may be deleted at any time.
"""


class _Place(NamedTuple):
    """Where data stands."""

    file: BinaryIO
    start: int
    length: int
    checksum: int


class Cache:
    """Bytes by digest. Nothing is read before the first question, and nothing is written but by :meth:`save`.

    For one process: its files are not to be shared with a forked child.

    :param folder: made when there is something to write
    :param version: of whatever makes the data; another version is another cache
    """

    def __init__(self, folder: str, version: str) -> None:
        self._folder = folder
        python = f"{sys.implementation.name}{sys.version_info[0]}{sys.version_info[1]}"
        safe = "".join(char if char.isalnum() or char == "." else "_" for char in version)
        self._prefix = f"{safe}-{python}-"
        self._places: dict[bytes, _Place] | None = None
        #: the files that were read, oldest first: name, size in bytes, the digests in it
        self._files: list[tuple[str, int, tuple[bytes, ...]]] = []
        self._used: set[bytes] = set()
        self._added: dict[bytes, bytes] = {}

    def get(self, digest: bytes) -> bytes | None:
        """What was kept for a digest; None where nothing was, or it is not whole."""
        added = self._added.get(digest)
        if added is not None:
            return added
        if self._places is None:
            self._places = self._read()
        place = self._places.get(digest)
        if place is None:
            return None
        data = _data(place)
        if data is None:
            del self._places[digest]
            return None
        self._used.add(digest)
        return data

    def put(self, digest: bytes, data: bytes) -> None:
        """Keep data for a digest, once :meth:`save` is called; raises ValueError for a digest of another length."""
        if len(digest) != DIGEST_SIZE:
            raise ValueError(f"a digest has {DIGEST_SIZE} bytes, not {len(digest)}")
        self._added[digest] = data

    def save(self) -> str | None:
        """Write what is new, whole or not at all. What is wrong with the folder, None where nothing is."""
        if not self._added:
            return None
        if self._places is None:
            self._places = self._read()
        merged = self._to_merge()
        try:
            self._make_folder()
            # a name that sorts behind those of before, and that no other run takes
            path = os.path.join(self._folder, f"{self._prefix}{time.time_ns():020}.{os.getpid()}.cache")
            draft = f"{path}.draft"
            try:
                with open(draft, "wb") as file:
                    _write(file, self._entries(merged))
                os.replace(draft, path)
            finally:
                with contextlib.suppress(OSError):
                    os.unlink(draft)
        except OSError as error:
            return f"{self._folder}: {error.strerror or error}"
        self.close()
        self._added.clear()
        for name in merged:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self._folder, name))
        self._forget_others()
        return None

    def close(self) -> None:
        """Let the files go; the next question reads them again."""
        for file in {id(place.file): place.file for place in (self._places or {}).values()}.values():
            file.close()
        self._places = None
        self._files = []
        self._used = set()

    def _to_merge(self) -> dict[str, tuple[bytes, ...]]:
        """The files that the new one takes in: the newest ones, as long as they are not much larger than it."""
        size = sum(len(data) + _ENTRY.size for data in self._added.values())
        whole = size + sum(length for _, length, _ in self._files) > LARGEST
        merged: dict[str, tuple[bytes, ...]] = {}
        for name, length, digests in reversed(self._files):
            if length > 2 * size and not whole and digests:
                break
            merged[name] = digests
            size += length
        return merged

    def _entries(self, merged: dict[str, tuple[bytes, ...]]) -> Iterator[tuple[bytes, bytes]]:
        """What is to be written: that which was asked for last, and without what makes it too large."""
        places = self._places or {}
        order = [digest for digests in merged.values() for digest in digests if digest not in self._added]
        order.sort(key=lambda digest: digest in self._used)
        total = sum(places[digest].length for digest in order) + sum(len(data) for data in self._added.values())
        for digest in order:
            if total > LARGEST:
                total -= places[digest].length
                continue
            data = _data(places[digest])
            if data is not None:
                yield digest, data
        yield from self._added.items()

    def _read(self) -> dict[bytes, _Place]:
        """Where everything stands; of two entries for one digest the newer one counts."""
        places: dict[bytes, _Place] = {}
        owner: dict[bytes, str] = {}
        sizes: dict[str, int] = {}
        try:
            names = sorted(name for name in os.listdir(self._folder) if self._is_ours(name))
        except OSError:
            return places
        for name in names:
            try:
                file = open(os.path.join(self._folder, name), "rb", buffering=0)  # noqa: SIM115 - until close()
            except OSError:
                continue
            found = _index(file)
            sizes[name] = os.fstat(file.fileno()).st_size
            if not found:
                file.close()
            for digest, place in found.items():
                places[digest] = place
                owner[digest] = name
        digests: dict[str, list[bytes]] = {name: [] for name in sizes}
        for digest, name in owner.items():
            digests[name].append(digest)
        self._files = [(name, size, tuple(digests[name])) for name, size in sizes.items()]
        return places

    def _is_ours(self, name: str) -> bool:
        return name.startswith(self._prefix) and name.endswith(".cache")

    def _make_folder(self) -> None:
        os.makedirs(self._folder, exist_ok=True)
        for name, text in (("CACHEDIR.TAG", _TAG), (".gitignore", "*\n")):
            with contextlib.suppress(FileExistsError), open(os.path.join(self._folder, name), "x") as file:
                file.write(text)

    def _forget_others(self) -> None:
        """Take away what other versions have left here, and drafts of runs that were killed."""
        with contextlib.suppress(OSError), os.scandir(self._folder) as entries:
            for entry in entries:
                if not entry.name.endswith((".cache", ".cache.draft")) or self._is_ours(entry.name):
                    continue
                if time.time() - entry.stat().st_mtime > _FORGOTTEN_AFTER_S:
                    os.unlink(entry.path)


def _write(file: BinaryIO, entries: Iterator[tuple[bytes, bytes]]) -> None:
    file.write(_MAGIC)
    position = len(_MAGIC)
    index = []
    for digest, data in entries:
        file.write(data)
        index.append(_ENTRY.pack(digest, position, len(data), zlib.crc32(data)))
        position += len(data)
    packed = b"".join(index)
    file.write(packed)
    file.write(_TRAILER.pack(position, len(index), zlib.crc32(packed)))


def _index(file: BinaryIO) -> dict[bytes, _Place]:
    """The places in one file; none where it is torn or foreign."""
    places: dict[bytes, _Place] = {}
    try:
        end = file.seek(0, os.SEEK_END)
        if end < len(_MAGIC) + _TRAILER.size:
            return places
        file.seek(0)
        if file.read(len(_MAGIC)) != _MAGIC:
            return places
        file.seek(end - _TRAILER.size)
        start, number, checksum = _TRAILER.unpack(file.read(_TRAILER.size))
        if start + number * _ENTRY.size + _TRAILER.size != end:
            return places
        file.seek(start)
        packed = file.read(number * _ENTRY.size)
    except (OSError, struct.error):
        return places
    if zlib.crc32(packed) != checksum or len(packed) != number * _ENTRY.size:
        return places
    for digest, position, length, of_data in _ENTRY.iter_unpack(packed):
        if position + length <= start:
            places[digest] = _Place(file, position, length, of_data)
    return places


def _data(place: _Place) -> bytes | None:
    """The data at a place; None where it is not what was written."""
    try:
        place.file.seek(place.start)
        data = place.file.read(place.length)
    except (OSError, ValueError):
        return None
    return data if len(data) == place.length and zlib.crc32(data) == place.checksum else None
