"""Read and write files in folders that other users may write to.

A file is written whole or not at all. In a folder like ``/tmp`` no link of another user is followed, even if the kernel
follows it (fs.protected_symlinks=0). A pipe, a device or a file without end is not read.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

#: The most bytes of a record or a facts file; one of 128 GPUs has less than 2 MiB.
LONGEST_RECORD = 64 << 20
#: The name of a draft: the host, since another host that shares the folder can't know who lives, and 64 random bits.
_DRAFT = ".distcheck-draft-{host}-{token}"
_MOST_NAMES = 10


def read_ordinary(path: str, longest: int = LONGEST_RECORD) -> bytes:
    """Return the bytes of an ordinary file; raises OSError for anything else, and for a longer one.

    :param longest: the most bytes, whole MiB
    """
    # a pipe without a writer would block
    number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with open(number, "rb") as file:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise OSError(errno.EINVAL, "it is no ordinary file")
        data = file.read(longest + 1)
    if len(data) > longest:
        raise OSError(errno.EFBIG, f"it has more than {longest >> 20} MiB")
    return data


def read_record(path: str, errors: str = "replace") -> str:
    """Return the text of an ordinary file; raises OSError for anything else, and for one above LONGEST_RECORD.

    :param errors: what becomes of bytes that are no UTF-8, as in bytes.decode
    """
    return read_ordinary(path).decode("utf-8", errors)


def foreign_files(folder: str, paths: Iterable[str]) -> frozenset[str]:
    """Return the files of a folder that a neighbor may have put there; raises OSError.

    In a folder in which all users may write, that is each file that is not this user's, root's or that of the folder's
    owner. Where all files have one owner, none is foreign: an engineer reads those of a user.
    """
    found = os.stat(folder)
    owners = {path: os.lstat(path).st_uid for path in paths}
    if not hasattr(os, "geteuid") or not found.st_mode & stat.S_IWOTH or len(set(owners.values())) < 2:
        return frozenset()
    known = (os.geteuid(), found.st_uid, 0)
    return frozenset(path for path, owner in owners.items() if owner not in known)


@contextlib.contextmanager
def private_folder(path: str) -> Iterator[int | None]:
    """Open a folder of this user's alone, which stays the same if another user puts another one there.

    Yields None where folders can't be opened (Windows). Raises OSError for any other folder.
    """
    if os.open not in os.supports_dir_fd:
        yield None
        return
    number = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        found = os.fstat(number)
        if found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise PermissionError(errno.EACCES, "it belongs to another user")
        yield number
    finally:
        os.close(number)


def remove_files(path: str, number: int | None, ours: re.Pattern[str]) -> None:
    """Remove the files of an open private folder that have our names, and the folder if it is empty then.

    A neighbor may have given another folder of this user the name of ours: of that one nothing is removed. Raises
    OSError.

    :param number: the open folder, as of :func:`private_folder`
    """
    for name in filter(ours.fullmatch, os.listdir(path if number is None else number)):
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(path, name) if number is None else name, dir_fd=number)
    os.rmdir(path)


def write_whole(path: str, data: bytes, *, follow: bool = True) -> None:
    """Write a file whole or not at all; the permissions and, where possible, the owner stay. Raises OSError.

    :param follow: a link stays a link; else the file replaces it
    """
    if follow:
        refuse_foreign_link(path)
    target = os.path.realpath(path) if follow else path
    found = os.lstat(target) if os.path.isfile(target) else None
    draft, number = _new_draft(os.path.dirname(target), 0o666 if found is None else 0o600)
    try:
        # the lock lasts until the draft has its last name
        with open(number, "wb") as file:
            file.write(data)
            file.flush()
            if found is not None and not stat.S_ISLNK(found.st_mode):
                _keep_owner(draft, found)
                os.chmod(draft, found.st_mode & 0o777)
            if fcntl is not None:
                os.replace(draft, target)
        if fcntl is None:  # Windows renames no open file
            os.replace(draft, target)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(draft)


def _new_draft(folder: str, mode: int) -> tuple[str, int]:
    """Return the path of a new file, which is locked, and its descriptor. Raises OSError."""
    import secrets

    # no other process can guess the name, and O_EXCL follows no link. Others must not read the draft of a private file
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    for turn in range(_MOST_NAMES):
        path = os.path.join(folder, _DRAFT.format(host=_host(), token=secrets.token_hex(8)))
        number = os.open(path, flags, mode)
        # another process may remove it as dead in the moment before it is locked
        if fcntl is None or turn == _MOST_NAMES - 1:
            break
        with contextlib.suppress(OSError):
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.lexists(path):
            break
        os.close(number)
    return path, number


def _host() -> str:
    import platform
    import zlib

    return f"{zlib.crc32(platform.node().encode()):08x}"


def remove_dead_drafts(folders: Iterable[str]) -> None:
    """Remove the drafts that killed processes of this user, on this host, left in folders.

    A process holds a lock on its draft, which the kernel releases at its end.
    """
    if fcntl is None:
        return
    import re

    ours = re.compile(re.escape(_DRAFT).replace(r"\{host\}", _host()).replace(r"\{token\}", "[0-9a-f]{16}"))
    for folder in folders:
        with contextlib.suppress(OSError):
            for name in filter(ours.fullmatch, os.listdir(folder or ".")):
                with contextlib.suppress(OSError):
                    _remove_dead(os.path.join(folder, name))


def _remove_dead(path: str) -> None:
    """Remove a draft that no process holds. Raises OSError if one does, or if it is no draft."""
    number = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        found = os.fstat(number)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_nlink != 1:
            return
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # it may have got its last name meanwhile
        if os.path.samestat(found, os.lstat(path)):
            os.unlink(path)
    finally:
        os.close(number)


def _keep_owner(path: str, found: os.stat_result) -> None:
    """Give a new file the owner and the group of the old one, as far as this user may."""
    if hasattr(os, "chown"):
        for owner, group in ((found.st_uid, -1), (-1, found.st_gid)):
            with contextlib.suppress(OSError):
                os.chown(path, owner, group)


def refuse_foreign_link(path: str) -> None:
    """Raise PermissionError if a path is a link of another user in a folder in which all users may write.

    The rule is that of fs.protected_symlinks (proc_sys_fs(5)): the link belongs to this user or to the folder's owner.
    """
    if not hasattr(os, "geteuid") or not os.path.islink(path):
        return
    link = os.lstat(path)
    folder = os.stat(os.path.dirname(path) or ".")
    shared = folder.st_mode & stat.S_IWOTH and folder.st_mode & stat.S_ISVTX
    if shared and link.st_uid not in (os.geteuid(), folder.st_uid):
        raise PermissionError(errno.EACCES, "it is a link of another user", path)
