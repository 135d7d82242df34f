"""The process that makes a room of its own for a rehearsal: a mount namespace with overlays, and keeps it.

It is a small Python without threads, as the kernel wants it. The ranks enter its namespace (:func:`enter`); nothing of
what is mounted there is seen outside, and all of it is unmounted with the last process in it. Linux only.
"""

from __future__ import annotations

import ctypes
import json
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

# <linux/sched.h>, <linux/mount.h>
_NEW_MOUNTS = 0x00020000
_NEW_USER = 0x10000000
_BIND, _RECURSIVE, _SLAVE = 4096, 16384, 1 << 19
_DETACH = 2
#: Files of one overlay that are listed; a rehearsal that writes more has them counted.
_MOST_LISTED = 2_000
_TRIAL = ".distcheck-can-this-be-written"


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _must(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    _must(
        _libc().mount(source.encode(), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), data.encode()),
        f"mount on {target}",
    )


def separate(*, user: bool) -> None:
    """Give this process a mount namespace of its own.

    :param user: in a user namespace of its own, for who may not mount; kernel 5.11 allows overlays there
    :raises OSError: it is not allowed
    """
    ids = os.getuid(), os.getgid()
    _must(_libc().unshare(_NEW_MOUNTS | (_NEW_USER if user else 0)), "unshare")
    if user:
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{ids[0]} {ids[0]} 1"),
            ("gid_map", f"{ids[1]} {ids[1]} 1"),
        ):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    # what is mounted outside comes in (a home folder that is mounted on its first use), what is mounted here stays
    _mount("none", "/", "", _RECURSIVE | _SLAVE)


def enter(pid: int, *, user: bool) -> None:
    """Enter the namespaces of the process that keeps them; this one must have no second thread yet.

    :raises OSError: it is not allowed, or the process has exited
    """
    libc = _libc()
    for name, flag in ((("user", _NEW_USER),) if user else ()) + (("mnt", _NEW_MOUNTS),):
        descriptor = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _must(libc.setns(descriptor, flag), f"setns({name})")
        finally:
            os.close(descriptor)


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
        self.in_memory = ""

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
                _libc().umount2(os.fsencode(path), _DETACH)
                raise OSError(0, "files of one of your groups can't be written in a user namespace")
            self.covered.append(OverlayMount(path, upper, lower))
            return
        raise why

    def _mounted(self, path: str, lower: int, number: int) -> str:
        store = self.stores[number] if number < len(self.stores) else self._memory()
        if store == path or store.startswith(path.rstrip("/") + "/"):
            raise OSError(0, "the changed files can't lie in the folder itself")
        base = os.path.join(store, f"{len(self.covered)}-{number}")
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
        if not self.in_memory:
            target = os.path.join(self.stores[0], "memory")
            os.makedirs(target, exist_ok=True)
            _mount("tmpfs", target, "tmpfs", 0, "mode=700")
            self.in_memory = target
        return self.in_memory


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


def _answer(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def _listed(room: MountNamespace) -> dict[str, object]:
    found: dict[str, list[str]] = {"written": [], "removed": []}
    more = 0
    for covered in room.covered:
        for change in changes(covered):
            if len(found[change.kind]) < _MOST_LISTED:
                found[change.kind].append(change.path)
            else:
                more += 1
    return {**found, "more": more}


def main() -> None:
    """Make the namespace that the first line of stdin requests, keep it, list it on request, end with the requester."""
    # Ctrl-C is for the requester; the end of stdin is the end
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    request = json.loads(sys.stdin.readline())
    os.chdir("/")
    room = MountNamespace(request["stores"], user=False)
    try:
        try:
            separate(user=False)
        except OSError:
            room.user = True
            separate(user=True)
    except OSError as error:
        _answer({"how": "python", "why": str(error.args[-1])})
        return
    places = request["only_own" if room.user else "everything"]
    room.cover(places["covered"], places["through"])
    _answer(
        {
            "how": "mount" if room.covered else "python", "user": room.user, "pid": os.getpid(),
            "covered": [covered.path for covered in room.covered], "failed": room.failed,
            "in_memory": bool(room.in_memory),
        }
    )  # fmt: skip
    for line in sys.stdin:
        if line.strip() == "list":
            _answer(_listed(room))


if __name__ == "__main__":
    main()
