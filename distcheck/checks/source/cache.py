"""Summaries of files, kept from one run to the next: bytes by the digest of other bytes.

What is read here decides what a run reports, so only entries that this user wrote are read: each entry has a keyed
hash (BLAKE2b), and the key lies in a folder that no other user and no checkout can write to. A file that is damaged,
foreign or unreadable is an empty cache, never an error of the run. Each run adds one file and merges files of about
the same size or less into it, so that few files remain and old, large ones are seldom copied.

The folder is used only where no other user can change it, and it is never reached through a link that a checkout
brings. Only files that have our name and our first bytes are deleted.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import os
import shlex
import stat
import struct
import sys
import time
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

#: Bytes of a digest; what is shorter or longer can't be kept.
DIGEST_SIZE = 20
#: Most bytes that the files of one version may hold: entries that were not used are dropped first.
LARGEST = 512 * 1024 * 1024
#: Seconds after which the files of another version of the engine, or of another Python, are deleted.
_FORGOTTEN_AFTER_S = 30 * 24 * 3600
_MAGIC = b"distcheck cache 3\n"
_OURS = "distcheck-"
_KEY_NAME = "distcheck-key"
_KEY_SIZE = 32
_TAG_SIZE = 16
#: Of each entry, after all data: the digest, where the data starts, its length in bytes, and the tag of both.
_ENTRY = struct.Struct(f"<{DIGEST_SIZE}sQI{_TAG_SIZE}s")
#: Where the entries of a file start, how many there are, and their tag.
_EXTENT = struct.Struct(f"<QI{_TAG_SIZE}s")
#: The end of a file: the above, and its own tag, so that no length is taken from a file that another user wrote.
_TRAILER_SIZE = _EXTENT.size + _TAG_SIZE
#: Never through a link, and never waiting at a pipe that lies there in place of a file. Windows has neither.
_FLAGS = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
#: The text that marks a folder as a cache for programs that make backups (bford.info/cachedir).
_TAG = """Signature: 8a477f597d28d172789f06886806bc55
# This folder holds what distcheck has worked out about source files. It may be deleted at any time.
"""


class UnsafeFolderError(Exception):
    """Another user can change the contents of a folder; the message gives the reason and the fix."""


def user_folder() -> str | None:
    """Return the cache folder of this user, or None without a home that is the user's own."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # the specification: a relative path is ignored
        if sys.platform == "win32":
            base = os.environ.get("LOCALAPPDATA", "")
        else:
            base = os.path.expanduser("~/Library/Caches" if sys.platform == "darwin" else "~/.cache")
    if not os.path.isabs(base):
        return None
    nearest = base if os.path.exists(base) else os.path.dirname(base)
    # `sudo` may keep HOME: what root makes there, its owner can't use
    if hasattr(os, "geteuid") and os.path.exists(nearest) and os.stat(nearest).st_uid not in (0, os.geteuid()):
        return None
    return os.path.join(base, "distcheck")


class _Place(NamedTuple):
    """Location of the data of an entry."""

    file: BinaryIO
    start: int
    length: int
    tag: bytes


class _Folder:
    """An open folder that only this user can write to. Its names stay those of this folder, even if it is moved.

    Raises UnsafeFolderError, and OSError where it can't be opened.

    :param make: create it with mode 0700 if it is missing
    """

    def __init__(self, path: str, *, make: bool = False) -> None:
        made = False
        if make:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, 0o700)
                made = True
        if os.path.islink(path):
            raise UnsafeFolderError(f"{path} is a link; fix: --cache-dir {shlex.quote(os.path.realpath(path))}")
        self._path = path
        self._number: int | None = None
        if os.open in os.supports_dir_fd:
            self._number = os.open(path, os.O_RDONLY | os.O_DIRECTORY | _FLAGS)
            found = os.fstat(self._number)
            why = ""
            if found.st_uid != os.geteuid():
                why = f"{path} belongs to another user ({found.st_uid}); fix: --cache-dir with your own folder"
            elif found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                mode = stat.S_IMODE(found.st_mode)
                why = f"other users can write to {path} (mode {mode:04o}); fix: chmod go-w {shlex.quote(path)}"
            if why:
                self.close()
                raise UnsafeFolderError(why)
        if made:  # in a folder with other files, these would hide them from git and from backups
            for name, text in (("CACHEDIR.TAG", _TAG), (".gitignore", "*\n")):
                with contextlib.suppress(FileExistsError), self.create(name) as file:
                    file.write(text.encode())

    def close(self) -> None:
        if self._number is not None:
            os.close(self._number)

    def names(self) -> list[str]:
        return sorted(os.listdir(self._path if self._number is None else self._number))

    def open(self, name: str) -> BinaryIO:
        """Open a file of ours, to read after its first bytes; OSError for anything else."""
        number = os.open(self._at(name), os.O_RDONLY | _FLAGS, dir_fd=self._number)
        file: BinaryIO = os.fdopen(number, "rb", buffering=0)
        if not stat.S_ISREG(os.fstat(number).st_mode) or file.read(len(_MAGIC)) != _MAGIC:
            file.close()
            raise OSError(errno.EINVAL, "not a file of the cache")
        return file

    def create(self, name: str) -> BinaryIO:
        number = os.open(self._at(name), os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600, dir_fd=self._number)
        return os.fdopen(number, "wb")

    @contextlib.contextmanager
    def replacing(self, name: str) -> Iterator[BinaryIO]:
        """A file that gets this name when all of it is written."""
        import secrets

        draft = f"{_OURS}{secrets.token_hex(8)}.draft"
        with self.create(draft) as file:
            try:
                file.write(_MAGIC)
                yield file
                file.close()
                os.replace(self._at(draft), self._at(name), src_dir_fd=self._number, dst_dir_fd=self._number)
            except BaseException:
                file.close()
                self.remove(draft)
                raise

    def remove(self, name: str) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._at(name), dir_fd=self._number)

    def _at(self, name: str) -> str:
        return os.path.join(self._path, name) if self._number is None else name


class Cache:
    """Bytes by digest. Nothing is read before the first :meth:`get`, and only :meth:`save` writes.

    For one process: its files are not to be shared with a forked child.

    :param folder: absolute; made when there is something to write
    :param version: of whatever makes the data; another version is another cache
    :param checkout: the folder with the files to check, which may bring files that look like a cache
    """

    def __init__(self, folder: str, version: str, *, checkout: str | None = None) -> None:
        self._path = os.path.abspath(folder)
        self._checkout = checkout
        python = f"{sys.implementation.name}{sys.version_info[0]}{sys.version_info[1]}"
        safe = "".join(char if char.isalnum() or char == "." else "_" for char in version)
        self._prefix = f"{_OURS}{safe}-{python}-"
        self._folder: _Folder | None = None
        self._key = b""
        self._places: dict[bytes, _Place] | None = None
        #: the files that were read, oldest first: name, size in bytes, the digests in it
        self._files: list[tuple[str, int, tuple[bytes, ...]]] = []
        self._used: set[bytes] = set()
        self._added: dict[bytes, bytes] = {}
        #: why the folder is not used, once that is known
        self.unsafe: str | None = None

    def get(self, digest: bytes) -> bytes | None:
        """Return what was kept for a digest; None where nothing was, or it is not whole."""
        added = self._added.get(digest)
        if added is not None:
            return added
        if self._places is None:
            self._places = self._read()
        place = self._places.get(digest)
        if place is None:
            return None
        data = _data(self._key, digest, place)
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
        """Write what is new, whole or not at all. Return why that is not possible, or None."""
        if not self._added:
            return None
        if self._places is None:
            self._places = self._read()
        if self.unsafe is not None:
            return self.unsafe
        merged = self._to_merge()
        try:
            folder = self._folder or self._open(make=True)
            # a name that sorts after those of before, and that no other run takes
            with folder.replacing(f"{self._prefix}{time.time_ns():020}.{os.getpid()}.cache") as file:
                _write(file, self._key, self._entries(merged))
        except UnsafeFolderError as error:
            self.unsafe = str(error)
            return self.unsafe
        except OSError as error:
            return f"{self._path}: {error.strerror or error}"
        self._added.clear()
        self._close_files()
        for name in merged:
            folder.remove(name)
        self._forget_others(folder)
        self.close()
        return None

    def close(self) -> None:
        """Close the files and the folder; the next :meth:`get` reads them again."""
        self._close_files()
        if self._folder is not None:
            self._folder.close()
            self._folder = None

    def _close_files(self) -> None:
        for file in {id(place.file): place.file for place in (self._places or {}).values()}.values():
            file.close()
        self._places = None
        self._files = []
        self._used = set()

    def _open(self, *, make: bool) -> _Folder:
        """Open the folder and read its key. Raises UnsafeFolderError and OSError."""
        inside = False
        if self._checkout is not None:
            real = os.path.realpath(self._path)
            inside = _is_in(real, os.path.realpath(self._checkout))
            if not inside and _is_in(self._path, os.path.abspath(self._checkout)):
                raise UnsafeFolderError(
                    f"a link in the checkout leads from {self._path} to {real}; "
                    "fix: --cache-dir with a folder outside of the checkout"
                )
        folder = _Folder(self._path, make=make)
        try:
            if not inside:
                self._key = _key_in(folder, make=make)
            elif (own := user_folder()) is None:
                raise UnsafeFolderError(
                    f"{self._path} is inside the checkout, and this user has no cache folder of their own; "
                    "fix: --cache-dir with a folder outside of it"
                )
            else:  # a checkout can bring a key along with its files: this user's own key counts
                with contextlib.closing(_Folder(own, make=make)) as keys:
                    self._key = _key_in(keys, make=make)
        except BaseException:
            folder.close()
            raise
        self._folder = folder
        return folder

    def _to_merge(self) -> dict[str, tuple[bytes, ...]]:
        """Return the files that the new one takes in: the newest ones, as long as they are not much larger than it."""
        size = len(_MAGIC) + _TRAILER_SIZE + sum(len(data) + _ENTRY.size for data in self._added.values())
        whole = size + sum(length for _, length, _ in self._files) > LARGEST
        merged: dict[str, tuple[bytes, ...]] = {}
        for name, length, digests in reversed(self._files):
            if length > 2 * size and not whole and digests:
                break
            merged[name] = digests
            size += length
        return merged

    def _entries(self, merged: dict[str, tuple[bytes, ...]]) -> Iterator[tuple[bytes, bytes]]:
        """Yield what is to be written: that which was requested last, and without what makes it too large."""
        places = self._places or {}
        order = [digest for digests in merged.values() for digest in digests if digest not in self._added]
        order.sort(key=lambda digest: digest in self._used)
        total = sum(places[digest].length + _ENTRY.size for digest in order)
        total += sum(len(data) + _ENTRY.size for data in self._added.values())
        for digest in order:
            if total > LARGEST:
                total -= places[digest].length + _ENTRY.size
                continue
            data = _data(self._key, digest, places[digest])
            if data is not None:
                yield digest, data
        yield from self._added.items()

    def _read(self) -> dict[bytes, _Place]:
        """Return where everything stands; of two entries for one digest the newer one counts."""
        places: dict[bytes, _Place] = {}
        owner: dict[bytes, str] = {}
        sizes: dict[str, int] = {}
        try:
            folder = self._open(make=False)
            names = [name for name in folder.names() if self._is_ours(name)]
        except UnsafeFolderError as error:
            self.unsafe = str(error)
            return places
        except OSError:
            return places
        for name in names:
            try:
                file = folder.open(name)
            except OSError:
                continue
            found = _index(file, self._key)
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

    def _forget_others(self, folder: _Folder) -> None:
        """Delete old files of other versions, and drafts of runs that were killed."""
        for name in folder.names():
            if not name.startswith(_OURS) or not name.endswith((".cache", ".draft")) or self._is_ours(name):
                continue
            with contextlib.suppress(OSError):
                with folder.open(name) as file:
                    changed = os.fstat(file.fileno()).st_mtime
                if time.time() - changed > _FORGOTTEN_AFTER_S:
                    folder.remove(name)


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(os.path.join(folder, ""))


def _key_in(folder: _Folder, *, make: bool) -> bytes:
    """Return the key in a folder. Raises OSError where there is none that only this user can read."""
    try:
        with folder.open(_KEY_NAME) as file:
            found = os.fstat(file.fileno())
            key = file.read(_KEY_SIZE + 1)
        private = not hasattr(os, "geteuid") or (
            found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
        )
        if len(key) == _KEY_SIZE and private:
            return key
    except OSError:
        if not make:
            raise
    if not make:
        raise OSError(errno.EACCES, "the key is damaged, or others can read it")
    import secrets

    key = secrets.token_bytes(_KEY_SIZE)
    with folder.replacing(_KEY_NAME) as file:
        file.write(key)
    return key


def _tag(key: bytes, kind: bytes, *parts: bytes) -> bytes:
    tag = hashlib.blake2b(key=key, person=kind, digest_size=_TAG_SIZE)
    for part in parts:
        tag.update(part)
    return tag.digest()


def _write(file: BinaryIO, key: bytes, entries: Iterator[tuple[bytes, bytes]]) -> None:
    position = len(_MAGIC)
    index = []
    for digest, data in entries:
        file.write(data)
        index.append(_ENTRY.pack(digest, position, len(data), _tag(key, b"entry", digest, data)))
        position += len(data)
    packed = b"".join(index)
    extent = _EXTENT.pack(position, len(index), _tag(key, b"index", packed))
    file.write(packed + extent + _tag(key, b"extent", extent))


def _index(file: BinaryIO, key: bytes) -> dict[bytes, _Place]:
    """Return the locations in one file; none where it is damaged or not written with this key."""
    places: dict[bytes, _Place] = {}
    try:
        end = file.seek(0, os.SEEK_END)
        if not len(_MAGIC) + _TRAILER_SIZE <= end <= 2 * LARGEST:
            return places
        file.seek(end - _TRAILER_SIZE)
        extent, own_tag = file.read(_EXTENT.size), file.read(_TAG_SIZE)
        if not hmac.compare_digest(own_tag, _tag(key, b"extent", extent)):
            return places
        start, number, tag = _EXTENT.unpack(extent)
        if start + number * _ENTRY.size + _TRAILER_SIZE != end:
            return places
        file.seek(start)
        packed = file.read(number * _ENTRY.size)
    except (OSError, struct.error):
        return places
    if not hmac.compare_digest(tag, _tag(key, b"index", packed)):
        return places
    return {digest: _Place(file, *place) for digest, *place in _ENTRY.iter_unpack(packed)}


def _data(key: bytes, digest: bytes, place: _Place) -> bytes | None:
    """Return the data of an entry; None where it is not what was written."""
    try:
        place.file.seek(place.start)
        data = place.file.read(place.length)
    except (OSError, ValueError):
        return None
    return data if hmac.compare_digest(place.tag, _tag(key, b"entry", digest, data)) else None
