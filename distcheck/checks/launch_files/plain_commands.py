"""Words and variables outside a shell, converted for the shell reader.

The exec form of a Dockerfile and the ``command`` of a pod are words. As shell text with exactly these words they go
through the shell reader, which finds ``bash -c`` and launchers in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from distcheck.core.patterns import lazy

from .fragments import Fragment, FragmentBuilder
from .model import FileSetting, LaunchFile, LaunchSite

if TYPE_CHECKING:
    from .shell import ShellText

#: A word without special characters.
_SAFE = lazy(r"[A-Za-z0-9_@%+=:,./-]+")


def as_shell_text(words: Iterable[Fragment], path: str) -> Fragment:
    """Return a command of these words as shell text that keeps their locations; nothing in it is expanded.

    A word that a shell would change is quoted. The quotes are located at those of the file.
    """
    made = FragmentBuilder()
    for word in words:
        if made.length:
            made.add_text(" ")
        if _SAFE.fullmatch(word.text):
            made.add(word)
        else:
            _add_quoted(word, made)
    return made.fragment(path)


def _add_quoted(word: Fragment, made: FragmentBuilder) -> None:
    r"""Append a word in single quotes, each ``'`` in it as ``'\''``."""
    line, column = word.location(0)
    made.add_text("'", (line, max(column - 1, 1)))
    start = 0
    for part in re.split("(')", word.text):
        inner = word.part(start, start + len(part))
        start += len(part)
        if part:
            made.add(inner, "'\\''" if part == "'" else part)
    made.add_text("'", word.location(len(word.text)))


class FileContents:
    """What the shell texts in one file contain, joined while the file is read."""

    def __init__(self) -> None:
        self.sites: list[LaunchSite] = []
        self.settings: list[FileSetting] = []
        self.problems: list[tuple[str, int, int]] = []
        self.comments: list[tuple[int, str]] = []

    def add(self, read: ShellText) -> None:
        """Add what one shell text contains."""
        self.sites.extend(read.sites)
        self.settings.extend(read.settings)
        self.problems.extend(read.problems)
        self.comments.extend(read.comments)

    def file(self, path: str, kind: str) -> LaunchFile:
        """Return the file; comments are sorted by line, each once."""
        return LaunchFile(
            path,
            kind,
            tuple(self.sites),
            tuple(self.settings),
            comments=tuple(sorted(set(self.comments))),
            problems=tuple(self.problems),
        )


def in_image(sites: Iterable[LaunchSite]) -> tuple[LaunchSite, ...]:
    """Return sites of an image without a folder: folders in the image are not those of the project."""
    return tuple(site._replace(folder=None) for site in sites)


def as_written(sites: Iterable[LaunchSite], path: str, lines: Sequence[str]) -> Iterator[LaunchSite]:
    """Yield sites whose words are written as in the file, if the shell reader got another text."""
    for site in sites:
        words = []
        for word in site.words:
            span = word.span
            if span.path == path and span.line == span.end_line <= len(lines):
                word = word._replace(written=lines[span.line - 1][span.column - 1 : span.end_column - 1])
            words.append(word)
        yield site._replace(words=tuple(words))


def joined(source: Fragment, stretches: Iterable[tuple[int, int]]) -> Fragment:
    """Return ranges of a text as one text: lines without their continuation marks."""
    made = FragmentBuilder()
    for start, end in stretches:
        if start < end:
            made.add(source.part(start, end))
    return made.fragment(source.path, source.location(0))


def with_lost(sites: Iterable[LaunchSite], lost: Mapping[str, FileSetting]) -> Iterator[LaunchSite]:
    """Yield sites without the exports of other shells: a line of a recipe, a step, a RUN."""
    for site in sites:
        missed = {name: setting for name, setting in lost.items() if name not in site.settings}
        yield site._replace(unexported={**missed, **site.unexported}) if missed else site
