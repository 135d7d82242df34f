"""The loops and branches around the lines at which ranks lost a peer, from the scripts that the tracebacks name.

A log is input, and names any path. Only a script below the working directory is read, and only if the line in it is
still the one that the traceback shows.
"""

from __future__ import annotations

import os
import stat

from distcheck.core.code_blocks import CodeBlock, around, blocks_in

from .model import Timeline, TracebackFrame, is_of_a_library
from .waiting_ranks import lost_in_collectives

#: Largest script that is read, in bytes.
_LARGEST = 1 << 20


def with_blocks(timeline: Timeline) -> Timeline:
    """Return the timeline with the blocks around the lines of ranks that lost a peer in a collective."""
    tracebacks = [event.traceback for event in lost_in_collectives(timeline) if event.traceback is not None]
    own = {frame for one in tracebacks for frame in one.frames if not is_of_a_library(frame.path)}
    found = {frame: blocks for frame in own if (blocks := _blocks_around(frame)) is not None}
    return timeline._replace(around=found) if found else timeline


def _blocks_around(frame: TracebackFrame) -> tuple[CodeBlock, ...] | None:
    source = _source(frame.path)
    lines = source.decode("utf-8", "replace").splitlines()
    if not frame.code or not 0 < frame.line <= len(lines) or lines[frame.line - 1].strip() != frame.code.strip():
        return None
    # an exit on the rank before the line is DC702, as in lint
    return around(blocks_in(source, behind_exits=False), frame.line)


def _source(path: str) -> bytes:
    """Return the bytes of a script below the working directory; b"" if it is elsewhere, too large or unreadable."""
    here, there = os.path.realpath(os.curdir), os.path.realpath(path)
    if not there.startswith(os.path.join(here, "")):
        return b""
    try:
        # a named pipe would wait for a writer
        with open(os.open(there, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            state = os.fstat(file.fileno())
            return file.read(_LARGEST) if stat.S_ISREG(state.st_mode) and state.st_size <= _LARGEST else b""
    except (OSError, ValueError):
        return b""
