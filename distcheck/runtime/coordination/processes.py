"""What can be seen of a child process from outside, and what a child needs to leave nothing behind: without torch, and
without asking anything of what runs in it.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from typing import NamedTuple

#: A frame as faulthandler writes it (CPython 3.10 to 3.14).
_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.*)')


class StackFrame(NamedTuple):
    """A line of a stack."""

    path: str
    line: int
    function: str


def private_file() -> int:
    """A file without a name: nothing is left behind, whatever ends this process."""
    if hasattr(os, "memfd_create"):
        with contextlib.suppress(OSError):
            return os.memfd_create("distcheck-stack")
    import tempfile

    handle, path = tempfile.mkstemp()
    os.unlink(path)
    return handle


def read_file(handle: int | None) -> str:
    """All that stands in an open file."""
    if handle is None:
        return ""
    size = os.fstat(handle).st_size
    return os.pread(handle, size, 0).decode("utf-8", "replace") if size else ""


def main_frames(text: str) -> list[StackFrame]:
    """The frames of the main thread out of faulthandler's text, where it stands last; innermost first."""
    _, _, block = text.rpartition("(most recent call first)")
    frames = []
    for line in block.splitlines()[1:]:
        match = _FRAME.match(line)
        if match is None:
            break
        frames.append(StackFrame(match[1], int(match[2]), match[3]))
    return frames


def kernel_state(pid: int | None) -> str:
    """The state letter of a process in /proc (proc(5)); "" where it can't be had."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0].decode()
    except (OSError, IndexError):
        return ""


def how_it_ended(exitcode: int | None) -> str:
    """An exit code as multiprocessing gives it, in words."""
    if exitcode is None:
        return "it runs"
    if exitcode >= 0:
        return f"it exited with status {exitcode}"
    try:
        return f"it was killed by {signal.Signals(-exitcode).name}"
    except ValueError:
        return f"it was killed by signal {-exitcode}"


def die_with_parent() -> None:
    """Linux ends this process with its parent, however that ends (prctl(2), PR_SET_PDEATHSIG = 1)."""
    if not sys.platform.startswith("linux"):
        return  # the pipe that closes tells it as well, a little later
    import ctypes

    parent = os.getppid()
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != parent:  # it went before this was asked
        os._exit(1)
