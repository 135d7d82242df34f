"""The overlays of a rehearsal, in a mount namespace that :mod:`.namespace_process` has made.

Nothing of what is mounted here is seen outside, and all of it is unmounted with the last process in the namespace.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .namespaces import libc, must

# <linux/mount.h>
_BIND, _RECURSIVE = 4096, 16384
_DETACH = 2
#: Files of one overlay that are listed; a rehearsal that writes more has them counted.
_MOST_LISTED = 2_000
_TRIAL = ".distcheck-can-this-be-written"


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    must(
        libc().mount(source.encode(), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), data.encode()),
        f"mount on {target}",
    )


class OverlayMount(NamedTuple):
    """One overlay."""

    path: str
    #: where the changed files lie
    upper: str
    #: a descriptor of the folder as it is without the overlay
    lower: int


class MountNamespace:
    """The overlays of this process' namespace.

    :param stores: folders in which changed files may be kept, best first
    """

    def __init__(self, stores: Sequence[str], *, user: bool) -> None:
        self.stores = list(stores)
        self.user = user
        self.covered: list[OverlayMount] = []
        #: folder, and why it could not be covered
        self.failed: list[tuple[str, str]] = []
        self._in_memory = ""

    def cover(self, paths: Sequence[str], through: Sequence[str]) -> None:
        """Put an overlay on each folder, and what shows through on top, outer ones first."""
        handles = {}
        for path in {*paths, *through}:
            try:
                handles[path] = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except OSError as error:
                if path in paths:
                    self.failed.append((path, error.strerror or str(error)))
        for path in sorted(handles, key=lambda path: (path.count("/"), path)):
            try:
                if path in paths:
                    self._overlay(path, handles[path])
                    continue
            except OSError as error:
                self.failed.append((path, error.strerror or str(error)))
            self._show(path, handles[path])

    def _show(self, path: str, handle: int) -> None:
        """Let a folder, or a file that is mounted, be seen in a covered one as it is outside."""
        hidden = any(path.startswith(covered.path.rstrip("/") + "/") for covered in self.covered)
        if hidden and os.path.lexists(path):
            try:
                _mount(f"/proc/self/fd/{handle}", path, "", _BIND | _RECURSIVE)
            except OSError as error:
                self.failed.append((path, error.strerror or str(error)))

    def _overlay(self, path: str, lower: int) -> None:
        if not os.path.isdir(path):
            raise OSError(0, "a file that is mounted by itself")
        was_writable = os.access(path, os.W_OK)
        why = OSError(0, "no folder for the changed files is available")
        for number in range(len(self.stores) + 1):
            try:
                upper = self._mounted(path, lower, number)
            except OSError as error:
                why = error
                continue
            if was_writable and not _can_write(path):
                libc().umount2(os.fsencode(path), _DETACH)
                raise OSError(0, "files of one of your groups can't be written in a user namespace")
            self.covered.append(OverlayMount(path, upper, lower))
            return
        raise why

    def _mounted(self, path: str, lower: int, number: int) -> str:
        store = self.stores[number] if number < len(self.stores) else self._memory()
        if store == path or store.startswith(path.rstrip("/") + "/"):
            raise OSError(0, "the changed files can't lie in the folder itself")
        base = os.path.join(store, f"{len(self.covered) + len(self.failed)}-{number}")
        names = [os.path.join(base, name) for name in ("upper", "work")]
        for name in names:
            os.makedirs(name)
        os.chmod(names[0], stat.S_IMODE(os.stat(path).st_mode))
        descriptors = [os.open(name, os.O_PATH) for name in names]
        options = f"lowerdir=/proc/self/fd/{lower},upperdir=/proc/self/fd/{descriptors[0]}"
        options += f",workdir=/proc/self/fd/{descriptors[1]}"
        try:
            # a folder that was there can be renamed only so, and only outside of a user namespace
            for more in (",userxattr", "") if self.user else (",redirect_dir=on", ""):
                try:
                    _mount("overlay", path, "overlay", 0, options + more)
                except OSError:
                    if not more:
                        raise
                else:
                    return names[0]
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        raise AssertionError

    def _memory(self) -> str:
        """A file system in memory, for a path that no folder outside can cover."""
        if not self._in_memory:
            target = os.path.join(self.stores[0], "memory")
            os.makedirs(target, exist_ok=True)
            _mount("tmpfs", target, "tmpfs", 0, "mode=700")
            self._in_memory = target
        return self._in_memory


def _can_write(folder: str) -> bool:
    trial = os.path.join(folder, _TRIAL)
    try:
        os.close(os.open(trial, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        os.unlink(trial)
    except OSError:
        return False
    return True


class ChangedFile(NamedTuple):
    """A file that the ranks have written or removed."""

    #: ``written``, ``removed``
    kind: str
    path: str


def changes(covered: OverlayMount) -> Iterator[ChangedFile]:
    """What differs from the folder as it was, by the upper folder alone (Linux, overlayfs.rst): files that were
    written are there as they are, removed ones as a device 0:0."""
    for folder, names, files in os.walk(covered.upper):
        names[:] = sorted(name for name in names if name != "__pycache__")
        inner = os.path.relpath(folder, covered.upper)
        for name in sorted(files):
            relative = os.path.normpath(os.path.join(inner, name))
            path = os.path.join(covered.path, relative)
            status = os.lstat(os.path.join(folder, name))
            if name == _TRIAL:
                continue
            if stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
                yield ChangedFile("removed", path)
            elif not _is_as_it_was(covered.lower, relative, status):
                yield ChangedFile("written", path)


def _is_as_it_was(lower: int, relative: str, status: os.stat_result) -> bool:
    """Opened for writing, and not written."""
    try:
        before = os.stat(relative, dir_fd=lower, follow_symlinks=False)
    except OSError:
        return False
    return (before.st_size, before.st_mtime_ns) == (status.st_size, status.st_mtime_ns)


def listed(room: MountNamespace) -> dict[str, object]:
    """Return what has changed: ``written``, ``removed``, and the number of files beyond those (``more``)."""
    found: dict[str, list[str]] = {"written": [], "removed": []}
    more = 0
    for covered in room.covered:
        for change in changes(covered):
            if len(found[change.kind]) < _MOST_LISTED:
                found[change.kind].append(change.path)
            else:
                more += 1
    return {**found, "more": more}
