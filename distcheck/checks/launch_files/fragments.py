"""A text with the locations of its characters in a file: a whole file, or a command in another text.

A shell command can be in a line of a Dockerfile, in a block of YAML, or after ``bash -c``. Its reader still reports the
location in the file.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import NamedTuple

from distcheck.core.spans import Span


class Piece(NamedTuple):
    """From this offset on, up to the next piece, the text equals the file."""

    offset: int
    line: int
    column: int


class Fragment:
    """A text and its location.

    :param text: the text to read
    :param path: the displayed path of the file
    :param pieces: where parts of the text begin in the file, by rising offset, the first at 0. After a line end within
        a
        piece the file continues in column 1 of its next line. A reader that removes indentation adds a piece per line.
    """

    def __init__(self, text: str, path: str, pieces: tuple[Piece, ...] = (Piece(0, 1, 1),)) -> None:
        self.text = text
        self.path = path
        self.pieces = pieces
        self._offsets = [piece.offset for piece in pieces]
        self._line_starts = [0]
        position = text.find("\n")
        while position >= 0:
            self._line_starts.append(position + 1)
            position = text.find("\n", position + 1)

    def location(self, offset: int) -> tuple[int, int]:
        """Return line and column in the file of the character at an offset; the end of the text is valid."""
        pieces, starts = self.pieces, self._line_starts
        piece = pieces[max(bisect_right(self._offsets, offset) - 1, 0)] if len(pieces) > 1 else pieces[0]
        first = bisect_right(starts, piece.offset) - 1 if piece.offset else 0
        own = bisect_right(starts, offset) - 1
        if own == first:
            return piece.line, piece.column + offset - piece.offset
        return piece.line + own - first, offset - starts[own] + 1

    def span(self, start: int, end: int) -> Span:
        """Return the range in the file between two offsets; the second is exclusive."""
        line, column = self.location(start)
        if end <= start:
            return Span(self.path, line, column, line, column)
        end_line, end_column = self.location(end - 1)
        return Span(self.path, line, column, end_line, end_column + 1)

    def part(self, start: int, end: int) -> Fragment:
        """Return a part of this text as a fragment."""
        line, column = self.location(start)
        inner = [Piece(0, line, column)]
        between = self.pieces[bisect_right(self._offsets, start) : bisect_left(self._offsets, end)]
        inner.extend(piece._replace(offset=piece.offset - start) for piece in between)
        return Fragment(self.text[start:end], self.path, tuple(inner))


class FragmentBuilder:
    """Joins parts of files, and replacements of such parts, to one fragment."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._pieces: list[Piece] = []
        self.length = 0

    def add(self, source: Fragment, text: str | None = None) -> None:
        """Append a fragment, or a text that replaces it."""
        self._pieces.append(Piece(self.length, *source.location(0)))
        if text is None or text == source.text:
            self._pieces.extend(
                piece._replace(offset=piece.offset + self.length) for piece in source.pieces if piece.offset > 0
            )
        self.add_text(source.text if text is None else text)

    def add_text(self, text: str, location: tuple[int, int] | None = None) -> None:
        """Append a text; without a location (line and column) it belongs to the part before it."""
        if location is not None:
            self._pieces.append(Piece(self.length, *location))
        self._parts.append(text)
        self.length += len(text)

    def fragment(self, path: str, location: tuple[int, int] = (1, 1)) -> Fragment:
        """Return the text with its locations; an empty one is at ``place``."""
        return Fragment("".join(self._parts), path, tuple(self._pieces) or (Piece(0, *location),))


def placeholder(length: int) -> str:
    """Return a reference to a variable that nothing sets, with this many characters: it stands for a template."""
    return "${" + "_" * (length - 3) + "}" if length > 3 else "$".ljust(length, "_") if length > 1 else "_"


def is_continued(line: str) -> bool:
    """Return whether a line ends with a backslash that continues it: an odd number of them."""
    line = line.rstrip("\r\n")
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def line_spans(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each line, without line ends."""
    spans: list[tuple[int, int]] = []
    position = 0
    for line in text.split("\n"):
        spans.append((position, position + len(line) - line.endswith("\r")))
        position += len(line) + 1
    return spans
