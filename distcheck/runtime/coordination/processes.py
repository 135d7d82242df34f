"""The state of a child process, read from outside without torch, and what a child needs to leave nothing behind."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys

from .model import Frame

#: A frame as faulthandler writes it (CPython 3.10 to 3.14).
_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.*)')


def private_file() -> int:
    """Return a file without a name: it does not outlive this process."""
    if hasattr(os, "memfd_create"):
        with contextlib.suppress(OSError):
            return os.memfd_create("distcheck-stack")
    import tempfile

    handle, path = tempfile.mkstemp()
    os.unlink(path)
    return handle


def read_file(handle: int | None) -> str:
    """Return the whole content of an open file."""
    if handle is None:
        return ""
    size = os.fstat(handle).st_size
    return os.pread(handle, size, 0).decode("utf-8", "replace") if size else ""


def main_frames(text: str) -> list[Frame]:
    """Return the frames of the main thread, innermost first, from faulthandler's text, which has it last."""
    _, _, block = text.rpartition("(most recent call first)")
    frames = []
    for line in block.splitlines()[1:]:
        match = _FRAME.match(line)
        if match is None:
            break
        frames.append(Frame(match[1], int(match[2]), match[3]))
    return frames


def kernel_state(pid: int | None) -> str:
    """Return the state letter of a process in /proc (proc(5)); "": unknown."""
    return next(iter(_stat(pid)), "")


def parent_of(pid: int | None) -> int | None:
    """Return the process ID of a process's parent by /proc; None: unknown."""
    fields = _stat(pid)
    return int(fields[1]) if len(fields) > 1 else None


def _stat(pid: int | None) -> list[str]:
    """The fields of /proc/PID/stat after the name (proc(5))."""
    # a stranger may have written a heartbeat with a path in place of the number into the job's store
    if not isinstance(pid, int):
        return []
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].decode().split()
    except OSError:
        return []


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def how_it_ended(exitcode: int | None) -> str:
    """Return an exit code of multiprocessing in words."""
    if exitcode is None:
        return "it runs"
    if exitcode >= 0:
        return f"it exited with status {exitcode}"
    try:
        return f"it was killed by {signal.Signals(-exitcode).name}"
    except ValueError:
        return f"it was killed by signal {-exitcode}"


def die_with_parent() -> None:
    """Let Linux end this process with its parent (prctl(2), PR_SET_PDEATHSIG = 1)."""
    if not sys.platform.startswith("linux"):
        return  # the closed pipe ends it too, a little later
    import ctypes

    parent = os.getppid()
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != parent:  # the parent exited before prctl
        os._exit(1)
