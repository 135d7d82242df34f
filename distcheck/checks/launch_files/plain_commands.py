"""Words and variables that stand outside of a shell, brought into the form that the reader of shells takes.

The exec form of a Dockerfile and the ``command`` of a pod are words already: as a shell text that means just these
words they go through the one reader, which finds ``bash -c`` in them, launchers and all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from .fragments import Fragment, Piece
from .model import FileSetting, LaunchFile, LaunchSite

#: A word that means itself in a shell.
_SAFE = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")


def as_shell_text(words: Iterable[Fragment], path: str) -> Fragment:
    """A command of these words, none of them expanded, as the text of a shell that keeps their places.

    A word that a shell would change is quoted, with the signs of quotes where those of the file stand.
    """
    text: list[str] = []
    pieces: list[Piece] = []
    length = 0
    for word in words:
        if text:
            text.append(" ")
            length += 1
        if _SAFE.fullmatch(word.text):
            made, moved = word.text, _moved(word, length)
        else:
            made, moved = _quoted(word, length)
        text.append(made)
        pieces.extend(moved)
        length += len(made)
    return Fragment("".join(text), path, tuple(pieces) or (Piece(0, 1, 1),))


def _moved(word: Fragment, offset: int) -> list[Piece]:
    """The pieces of a word that begins at this offset of a longer text."""
    rest = [piece._replace(offset=piece.offset + offset) for piece in word.pieces if piece.offset > 0]
    return [Piece(offset, *word.place(0)), *rest]


def _quoted(word: Fragment, offset: int) -> tuple[str, list[Piece]]:
    r"""A word in single quotes, each ``'`` in it as ``'\''``."""
    line, column = word.place(0)
    made = ["'"]
    pieces = [Piece(offset, line, max(column - 1, 1))]
    length = offset + 1
    start = 0
    for part in re.split("(')", word.text):
        inner = word.part(start, start + len(part))
        start += len(part)
        if part == "'":
            pieces.append(Piece(length, *inner.place(0)))
            part = "'\\''"
        elif part:
            pieces.extend(_moved(inner, length))
        made.append(part)
        length += len(part)
    pieces.append(Piece(length, *word.place(len(word.text))))
    made.append("'")
    return "".join(made), pieces


def with_comments(file: LaunchFile, own: Iterable[tuple[int, str]], inner: Iterable[tuple[int, str]]) -> LaunchFile:
    """A file with the comments that it and the shells in it have, each once, by line."""
    return file._replace(comments=tuple(sorted({*own, *inner})))


def in_image(sites: Iterable[LaunchSite]) -> tuple[LaunchSite, ...]:
    """Sites of an image: which folder of it a command starts in says nothing about the folders here."""
    return tuple(site._replace(folder=None) for site in sites)


def as_written(sites: Iterable[LaunchSite], path: str, lines: Sequence[str]) -> Iterator[LaunchSite]:
    """Sites whose words are written as they stand in the file, where the shell was given something in their place."""
    for site in sites:
        words = []
        for word in site.words:
            span = word.span
            if span.path == path and span.line == span.end_line <= len(lines):
                word = word._replace(written=lines[span.line - 1][span.column - 1 : span.end_column - 1])
            words.append(word)
        yield site._replace(words=tuple(words))


def joined(source: Fragment, stretches: Iterable[tuple[int, int]]) -> Fragment:
    """Stretches of a text, by their offsets, as one text: lines whose continuation marks are taken away."""
    text: list[str] = []
    pieces: list[Piece] = []
    length = 0
    for start, end in stretches:
        if start < end:
            pieces.extend(_moved(source.part(start, end), length))
            text.append(source.text[start:end])
            length += end - start
    return Fragment("".join(text), source.path, tuple(pieces) or (Piece(0, *source.place(0)),))


def with_lost(sites: Iterable[LaunchSite], lost: Mapping[str, FileSetting]) -> Iterator[LaunchSite]:
    """Sites that don't get what another shell has exported before: a line of a recipe, a step, a RUN of its own."""
    for site in sites:
        missed = {name: setting for name, setting in lost.items() if name not in site.settings}
        yield site._replace(unexported={**missed, **site.unexported}) if missed else site
