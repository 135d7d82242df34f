"""Makes and enters namespaces of Linux: of mounts and of the network, for an unprivileged user in a user namespace.

A process that does so must have one thread. A namespace ends with the last process in it.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

# <linux/sched.h>, <linux/mount.h>; the order in which they are entered
_FLAGS = {"user": 0x10000000, "mnt": 0x00020000, "net": 0x40000000}
_RECURSIVE, _SLAVE = 16384, 1 << 19
#: <linux/capability.h>
_CAPABILITIES_3 = 0x20080522


def libc() -> Any:
    """The C library, whose functions set errno for :func:`must`."""
    return ctypes.CDLL(None, use_errno=True)


def must(result: int, what: str) -> None:
    """Raise the OSError of a call that failed."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def separate(kind: str, *, user: bool) -> None:
    """Give this process a namespace of its own.

    :param kind: ``mnt`` or ``net``
    :param user: in a user namespace of its own, for an unprivileged user; kernel 5.11 allows overlays there
    :raises OSError: it is not allowed
    """
    if user:
        _unshare_with_user(_FLAGS[kind])
    else:
        must(libc().unshare(_FLAGS[kind]), "unshare")
    if kind == "mnt":
        # what is mounted outside comes in (a home folder that is mounted on its first use), what is mounted here stays
        must(libc().mount(b"none", b"/", b"", ctypes.c_ulong(_RECURSIVE | _SLAVE), b""), "mount on /")


def _unshare_with_user(flag: int) -> None:
    """The users of a user namespace: of root all, as far as root may map them; else this user alone."""
    user, group = os.getuid(), os.getgid()
    outside: dict[str, str] = {}
    for name in ("uid_map", "gid_map"):
        with open(f"/proc/self/{name}", encoding="ascii") as file:
            outside[name] = "".join(f"{first} {first} {count}\n" for first, _, count in map(str.split, file))
    receiver, sender = os.pipe()
    helper = os.fork() if user == 0 else -1
    if helper == 0:
        # only a process outside may map other users: root without them can't read their files
        with suppress(OSError):
            os.close(sender)
            if os.read(receiver, 1):
                for name, text in outside.items():
                    _write(f"/proc/{os.getppid()}/{name}", text)
                os._exit(0)
        os._exit(1)
    os.close(receiver)
    try:
        must(libc().unshare(flag | _FLAGS["user"]), "unshare")
        if helper > 0:
            os.write(sender, b"1")
    finally:
        os.close(sender)
        mapped = helper > 0 and os.waitpid(helper, 0)[1] == 0
    if not mapped:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def enter(pid: int, kinds: Sequence[str]) -> None:
    """Enter the namespaces of the process that keeps them; this one must have no second thread yet.

    :param kinds: of ``user``, ``mnt``, ``net``
    :raises OSError: it is not allowed, or the process has exited
    """
    for name in [name for name in _FLAGS if name in kinds]:
        descriptor = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            must(libc().setns(descriptor, _FLAGS[name]), f"setns({name})")
        finally:
            os.close(descriptor)
    if "user" in kinds and os.getuid() != 0:
        # the kernel grants all of them in the namespace: a read-only file would be written, port 80 would be taken
        header = (ctypes.c_uint32 * 2)(_CAPABILITIES_3, 0)
        must(libc().capset(header, (ctypes.c_uint32 * 6)()), "capset")
