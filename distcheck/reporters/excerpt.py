"""A line of source as it is shown: cut to the available width, with the part that is meant marked.

Text and page lay it out each in its own way; nothing is coloured here.
"""

from __future__ import annotations

from typing import NamedTuple

from distcheck.core.model import Where

from . import CI_COMMAND, escape, escape_first

#: Columns between two stops of a tab in a line of source.
_TAB = 4


class Excerpt(NamedTuple):
    """The part of a line that is shown: what stands before the marked part, that part, and what follows."""

    before: str
    marked: str
    behind: str
    #: columns of ``before`` and of ``marked``, as a terminal counts them
    indent: int
    width: int


def excerpt(source: str, where: Where, room: int, dots: str = "…") -> Excerpt:
    """Return what fits of a line into so many columns, around the part that is meant.

    :param dots: stands for what is cut
    """
    begin = (where.column or 1) - 1
    one_line = where.end_line in (None, where.line)
    end = len(source.rstrip()) if not one_line else begin + 1 if where.end_column is None else where.end_column - 1
    text = source.rstrip()
    plain = text.isascii() and text.isprintable()
    cells: list[str] = list(text) if plain else []
    reached = 0
    for char in "" if plain else text:
        # a tab ends at its stop, whatever stands in front of it
        cells.append(" " * (_TAB - reached % _TAB) if char == "\t" else escape(char))
        reached += columns(cells[-1])
    for command in CI_COMMAND.finditer(text):
        cells[command.start()] = escape_first(command)[:4]
    first, last = _window(cells, begin, room, len(dots))
    start, stop = min(begin, last), min(end, last)
    before = (dots if first else "") + "".join(cells[first:start])
    marked = cells[start:stop]
    behind = "".join(cells[max(start, stop) : last]) + (dots if last < len(cells) else "")
    return Excerpt(before, "".join(marked), behind, columns(before), columns("".join(marked)))


def _window(cells: list[str], begin: int, room: int, dots: int) -> tuple[int, int]:
    """Which cells of a long line are shown."""
    if columns("".join(cells)) <= room:
        return 0, len(cells)
    first = begin if columns("".join(cells[:begin])) > room // 2 else 0
    # some of what stands in front is kept: it shows what the marked part belongs to
    while first > 0 and columns("".join(cells[first - 1 : begin])) <= room // 3:
        first -= 1
    last = first
    width = (dots if first else 0) + dots
    while last < len(cells) and width + columns(cells[last]) <= room:
        width += columns(cells[last])
        last += 1
    return first, last


def columns(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)
