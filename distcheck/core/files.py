"""Read and write files in folders that other users may write to.

A file is written whole or not at all. In a folder like ``/tmp`` no link of another user is followed, even if the kernel
follows it (fs.protected_symlinks=0). A pipe, a device or a file without end is not read.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat

#: The most bytes of a record or a facts file; one of 128 GPUs has less than 2 MiB.
LONGEST_RECORD = 64 << 20


def read_record(path: str, errors: str = "replace") -> str:
    """Return the text of an ordinary file; raises OSError for anything else, and for one above LONGEST_RECORD.

    :param errors: what becomes of bytes that are no UTF-8, as in bytes.decode
    """
    # a pipe without a writer would block
    number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with open(number, "rb") as file:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise OSError(errno.EINVAL, "it is no ordinary file")
        data = file.read(LONGEST_RECORD + 1)
    if len(data) > LONGEST_RECORD:
        raise OSError(errno.EFBIG, f"it has more than {LONGEST_RECORD >> 20} MiB")
    return data.decode("utf-8", errors)


def write_whole(path: str, data: bytes, mode: int | None = None) -> None:
    """Write a file whole or not at all; a link stays a link. Raises OSError.

    :param mode: its permissions; those of a new file by default
    """
    refuse_foreign_link(path)
    target = os.path.realpath(path)
    # no other process can guess the name, and "x" follows no link
    draft = os.path.join(os.path.dirname(target), f".{os.path.basename(target)[:200]}.{secrets.token_hex(8)}")
    try:
        with open(draft, "xb") as file:
            file.write(data)
        if mode is not None:
            os.chmod(draft, mode)
        os.replace(draft, target)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(draft)


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
