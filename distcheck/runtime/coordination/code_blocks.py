"""Loops and branches around the lines of ranks: whether two ranks at two lines took different branches."""

from __future__ import annotations

import functools
import os

from distcheck.core.code_blocks import CodeBlock, blocks_in
from distcheck.core.code_blocks import around as around_line
from distcheck.core.files import read_ordinary

from .locations import split_place
from .model import Positions

#: The most bytes of a script.
_LARGEST = 4 << 20


def with_blocks(positions: Positions, folder: str = "") -> Positions:
    """Return positions with the blocks around the lines at which ranks are; each file is read once.

    :param folder: to which paths are relative; "": the working directory
    """
    places = {frame.place for position in positions.ranks for frame in position.stack if frame.own}
    places |= {call.place for mismatch in positions.mismatches for _, call in mismatch.calls if call.place}
    return positions._replace(around={place: _around_place(place, folder) for place in sorted(places)})


def around(path: str, line: int) -> tuple[CodeBlock, ...]:
    """Return the blocks of the same function that contain a line, outermost first; () if the file cannot be read."""
    return around_line(_blocks(path), line)


def _around_place(place: str, folder: str) -> tuple[CodeBlock, ...]:
    path, line = split_place(place)
    return around(os.path.join(folder, path or ""), line or 0)


@functools.lru_cache(maxsize=64)
def _blocks(path: str) -> tuple[CodeBlock, ...]:
    # a stranger may have written a heartbeat with the path of a pipe or a device into the job's store
    try:
        return blocks_in(read_ordinary(path, _LARGEST))
    except (OSError, ValueError):
        return ()
