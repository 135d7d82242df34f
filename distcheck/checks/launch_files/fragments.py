"""A text with the places that its characters have in a file: a whole file, or a command within another text.

A shell command stands in a line of a Dockerfile, in a block of YAML, behind ``bash -c``; whoever reads it still says
where in the file it is.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from distcheck.core.model import Edit, Where


class Span(NamedTuple):
    """A stretch of a file; lines and columns (in characters) count from 1, the end is exclusive."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int

    def where(self, *, variable: str | None = None, object: str | None = None) -> Where:
        """Return the stretch as the location of a finding."""
        return Where(*self, variable=variable, object=object)

    def replaced_by(self, text: str) -> Edit:
        """Return the edit that writes another text here."""
        return Edit(*self, text)

    def preceded_by(self, text: str) -> Edit:
        """Return the edit that inserts a text before it."""
        return Edit(self.path, self.line, self.column, self.line, self.column, text)

    def followed_by(self, text: str) -> Edit:
        """Return the edit that inserts a text after it."""
        return Edit(self.path, self.end_line, self.end_column, self.end_line, self.end_column, text)


class Piece(NamedTuple):
    """From this offset of the text on, up to the next piece, characters stand in the file as they do in the text."""

    offset: int
    line: int
    column: int


class Fragment:
    """A text and where it comes from.

    :param text: what is to be read
    :param path: the file, as it is shown to users
    :param pieces: where stretches of the text begin in the file, by rising offset, the first at 0. Behind a line end
        within a piece the file goes on in column 1 of its next line; whoever has taken indentation away adds a piece
        for each line.
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
        """Line and column in the file of the character at an offset of the text; the end of the text is one as well."""
        piece = self.pieces[max(bisect_right(self._offsets, offset) - 1, 0)]
        first = bisect_right(self._line_starts, piece.offset) - 1
        own = bisect_right(self._line_starts, offset) - 1
        if own == first:
            return piece.line, piece.column + offset - piece.offset
        return piece.line + own - first, offset - self._line_starts[own] + 1

    def span(self, start: int, end: int) -> Span:
        """The stretch of the file from one offset up to another, exclusive."""
        line, column = self.location(start)
        if end <= start:
            return Span(self.path, line, column, line, column)
        end_line, end_column = self.location(end - 1)
        return Span(self.path, line, column, end_line, end_column + 1)

    def part(self, start: int, end: int) -> Fragment:
        """A stretch of this text as a fragment of its own."""
        line, column = self.location(start)
        inner = [Piece(0, line, column)]
        inner.extend(piece._replace(offset=piece.offset - start) for piece in self.pieces if start < piece.offset < end)
        return Fragment(self.text[start:end], self.path, tuple(inner))


class FragmentBuilder:
    """Joins parts of files, and text that stands for such parts, to one fragment."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._pieces: list[Piece] = []
        self.length = 0

    def add(self, source: Fragment, text: str | None = None) -> None:
        """Append a fragment, or another text in its place."""
        self._pieces.append(Piece(self.length, *source.location(0)))
        if text is None or text == source.text:
            self._pieces.extend(
                piece._replace(offset=piece.offset + self.length) for piece in source.pieces if piece.offset > 0
            )
        self.add_text(source.text if text is None else text)

    def add_text(self, text: str, location: tuple[int, int] | None = None) -> None:
        """Append a text; without ``place`` (line and column) it belongs to the part before it."""
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
