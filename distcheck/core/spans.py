"""Ranges of files, and edits of them."""

from __future__ import annotations

from typing import NamedTuple

from .model import Edit, Where


class Span(NamedTuple):
    """A range in a file. Lines and columns (in characters) count from 1; the end is exclusive."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int

    def where(self, *, variable: str | None = None, object: str | None = None) -> Where:
        """Return the range as the location of a finding."""
        return Where(*self, variable=variable, object=object)

    def replaced_by(self, text: str) -> Edit:
        """Return the edit that writes another text here."""
        return Edit(*self, text)

    def literal_edit(self, old: str, new: str) -> tuple[Edit, ...]:
        """Return the edit that replaces a text, or nothing if the range is not exactly as long as the text."""
        is_literal = self.line == self.end_line and self.end_column - self.column == len(old)
        return (self.replaced_by(new),) if is_literal else ()

    def preceded_by(self, text: str) -> Edit:
        """Return the edit that inserts a text before it."""
        return Edit(self.path, self.line, self.column, self.line, self.column, text)

    def followed_by(self, text: str) -> Edit:
        """Return the edit that inserts a text after it."""
        return Edit(self.path, self.end_line, self.end_column, self.end_line, self.end_column, text)
