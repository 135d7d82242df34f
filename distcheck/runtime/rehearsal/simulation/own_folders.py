"""Folders of temporary files that the next rehearsal removes where the process that made them was killed.

The owner holds a lock on a file in the folder, which the kernel releases at its end. The number of the process proves
nothing: containers that share ``/tmp`` count from 1, and numbers are used again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile

PREFIX = "distcheck-rehearsal-"
#: Where a folder goes that can't be below that of temporary files: with a short path, and on no disk.
MEMORY = "/dev/shm"
_LOCK = "lock"


class OwnFolder:
    """A new folder that only this user can open.

    :param parent: the folder to make it in; None: that of temporary files
    """

    def __init__(self, parent: str | None = None) -> None:
        self.path = tempfile.mkdtemp(prefix=PREFIX, dir=parent)
        draft = os.path.join(self.path, "draft")
        self._lock = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        # another process finds the lock when it is taken
        os.rename(draft, os.path.join(self.path, _LOCK))

    def remove(self) -> None:
        """Remove it with all that is in it."""
        remove(self.path)
        os.close(self._lock)


def sweep(parent: str) -> None:
    """Remove the folders of killed rehearsals of this user, in a folder that may be missing."""
    for name in os.listdir(parent) if os.path.isdir(parent) else ():
        path = os.path.join(parent, name)
        with contextlib.suppress(OSError):
            found = os.lstat(path)  # never through a link of another user
            own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
            if name.startswith(PREFIX) and own and _is_abandoned(path):
                remove(path)


def _is_abandoned(path: str) -> bool:
    """Return whether no process holds the lock of a folder. Raises OSError without a lock."""
    number = os.open(os.path.join(path, _LOCK), os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(number)
    return True


def remove(folder: str) -> None:
    """Remove a folder; the kernel's own folder in an overlay has no permissions at all."""
    for outer, names, _ in os.walk(folder):
        for name in names:
            path = os.path.join(outer, name)
            if not os.path.islink(path):
                with contextlib.suppress(OSError):
                    os.chmod(path, 0o700)
    shutil.rmtree(folder, ignore_errors=True)
