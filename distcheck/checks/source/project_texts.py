"""The texts of all files of a run: whether code or a configuration names something, in files that are not linked too.

Nothing is read before the first question. Comments and definitions do not count as uses.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from distcheck.core.patterns import lazy

from . import notebooks

#: Bytes of one repository that are searched; a name in a larger one counts as used.
_MOST = 64_000_000
#: Bytes of a file that are searched: larger ones are data.
_LARGEST = 2_000_000
#: Occurrences of one name that are kept.
_MOST_MENTIONS = 60
#: Bytes before a name that may hold the start of its import.
_LONGEST_IMPORT = 3_000

_DEFINITION = lazy(rb"(?:async[ \t]+def|def|class)[ \t]+(\w+)")
_ALIAS = lazy(rb"[ \t]+as[ \t]+(\w+)")
_LONG_TEXT = lazy(rb"(\"\"\"|''').*?\1", re.DOTALL)
#: What begins no statement: comments, and the end of brackets.
_NO_START = (b"#", b")", b"]", b"}")
_IMPORT = lazy(rb"^[ \t]*(?:from[ \t]+[\w.]+[ \t]+)?import\b", re.MULTILINE)
_LONG_IMPORT = lazy(
    rb"(?:^[ \t]*from[ \t]+[\w.]+[ \t]+import[ \t]*\(|^[ \t]*__all__[ \t]*\+?=[ \t]*[\[(])[^()\[\]]*\Z", re.MULTILINE
)


class Mention(NamedTuple):
    """A name in a file, other than where it is defined."""

    path: str
    #: the functions and classes around it, outermost first; empty in a file that is no Python
    around: tuple[str, ...]
    #: the name is imported or passed on there
    imports: bool
    #: it is a text
    quoted: bool
    #: the name that an import gives it
    alias: str = ""
    #: it follows a dot
    attribute: bool = False


#: ``uses`` or ``mentions``, the repository and the name; or ``magics``, the repository and the path of a notebook.
Question = tuple[str, str, str]
#: A plain value that a later run compares.
Answer = bool | tuple[tuple[Any, ...], ...] | None


class ProjectTexts:
    """Answers whether a name is used in a repository, and where.

    :param reads: the repository and the path of each file, and what returns its bytes; raises OSError
    """

    def __init__(self, reads: Iterable[tuple[str, str, Callable[[], bytes]]]) -> None:
        self._reads: dict[str, list[tuple[str, Callable[[], bytes]]]] = {}
        for repository, path, read in reads:
            self._reads.setdefault(repository, []).append((path, read))
        self._texts: dict[str, _Text | None] = {}
        self._known: dict[tuple[str, str], bool] = {}
        self._mentions: dict[tuple[str, str], tuple[Mention, ...] | None] = {}

    def answer(self, question: Question) -> Answer:
        """Return the answer to a question, as a plain value."""
        kind, repository, name = question
        if kind == "uses":
            return self.uses(repository, name)
        if kind == "magics":
            return self.magics(repository, name)
        found = self.mentions(repository, name)
        return None if found is None else tuple(tuple(one) for one in found)

    def uses(self, repository: str, name: str) -> bool:
        """Return whether a file of a repository names something, other than to define it."""
        key = (repository, name)
        if key not in self._known:
            text = self._text(repository)
            self._known[key] = text is None or next(text.uses(name.encode()), None) is not None
        return self._known[key]

    def mentions(self, repository: str, name: str) -> tuple[Mention, ...] | None:
        """Return where files of a repository name something; None if these are too many."""
        key = (repository, name)
        if key not in self._mentions:
            text = self._text(repository)
            self._mentions[key] = None if text is None else text.mentions(name.encode())
        return self._mentions[key]

    def magics(self, repository: str, path: str) -> tuple[tuple[str], ...] | None:
        """Return the lines of a notebook that are no Python, such as ``%time main()``; None if it can't be read."""
        read = dict(self._reads.get(repository, ())).get(path)
        try:
            return None if read is None else tuple((line,) for line in notebooks.magics(read()))
        except (OSError, ValueError):
            return None

    def _text(self, repository: str) -> _Text | None:
        if repository not in self._texts:
            parts: list[tuple[str, bytes]] = []
            size = 0
            for path, read in self._reads.get(repository, ()):
                try:
                    data = read()
                except OSError:
                    continue
                if len(data) <= _LARGEST:
                    parts.append((path, data))
                    size += len(data)
                if size > _MOST:
                    break
            self._texts[repository] = None if size > _MOST else _Text(parts)
        return self._texts[repository]


class _Text:
    """The files of one repository as one text."""

    def __init__(self, parts: list[tuple[str, bytes]]) -> None:
        self.paths = [path for path, _ in parts]
        self.starts: list[int] = []
        start = 0
        for _, data in parts:
            self.starts.append(start)
            start += len(data) + 1
        self.text = b"\n".join(data for _, data in parts)
        #: by file: where texts of several lines begin and end
        self._prose: dict[int, list[int]] = {}

    def uses(self, name: bytes) -> Iterator[int]:
        """Yield where a name stands, other than in a comment or as the name of a definition."""
        text = self.text
        start = text.find(name)
        while start >= 0:
            end = start + len(name)
            if not (_is_of_word(text[start - 1 : start]) or _is_of_word(text[end : end + 1])):
                before = text[text.rfind(b"\n", 0, start) + 1 : start]
                if b"#" not in before and before.split()[-1:] not in ([b"def"], [b"class"]):
                    yield start
            start = text.find(name, end)

    def mentions(self, name: bytes) -> tuple[Mention, ...] | None:
        """Return where a name stands; None if that is too often."""
        found: dict[Mention, None] = {}
        for number, position in enumerate(self.uses(name)):
            if number >= _MOST_MENTIONS:
                return None
            if not self._is_prose(position):
                found[self._mention(position, position + len(name))] = None
        return tuple(found)

    def _is_prose(self, position: int) -> bool:
        """Return whether a position lies in a text of several lines, as documentation does."""
        part = bisect_right(self.starts, position) - 1
        if part not in self._prose:
            ends = self.starts[part + 1] if part + 1 < len(self.starts) else len(self.text)
            spans = _LONG_TEXT.finditer(self.text, self.starts[part], ends)
            is_python = self.paths[part].endswith((".py", ".pyi"))
            self._prose[part] = [edge for match in spans for edge in match.span()] if is_python else []
        return bisect_right(self._prose[part], position) % 2 == 1

    def _mention(self, position: int, end: int) -> Mention:
        part = bisect_right(self.starts, position) - 1
        path, first = self.paths[part], self.starts[part]
        if not path.endswith((".py", ".pyi")):
            return Mention(path, (), imports=False, quoted=False)
        text = self.text
        line = text.rfind(b"\n", first, position) + 1 or first
        quotes = (b'"', b"'")
        imports = _IMPORT.match(text, line, position) is not None or (
            _LONG_IMPORT.search(text, max(first, position - _LONGEST_IMPORT), position) is not None
        )
        quoted = text[position - 1 : position] in quotes and text[end : end + 1] in quotes
        renamed = _ALIAS.match(text, end) if imports else None
        alias = "" if renamed is None else renamed[1].decode()
        attribute = text[max(first, position - 200) : position].rstrip(b" \t\r\n\\").endswith(b".")
        return Mention(path, self._around(first, line, position), imports, quoted, alias, attribute)

    def _around(self, first: int, line: int, position: int) -> tuple[str, ...]:
        """Return the definitions around a position, by the indentation of the lines above."""
        text = self.text
        own = text[line:position]
        indent = len(own) - len(own.lstrip())
        found: list[str] = []
        while indent and line > first:
            start = text.rfind(b"\n", first, line - 1) + 1 or first
            row = text[start : line - 1]
            bare = row.lstrip()
            if bare and len(row) - len(bare) < indent and not bare.startswith(_NO_START):
                indent = len(row) - len(bare)
                match = _DEFINITION.match(bare)
                if match is not None:
                    found.append(match[1].decode())
            line = start
        return tuple(reversed(found))


def _is_of_word(char: bytes) -> bool:
    return char.isalnum() or char == b"_"
