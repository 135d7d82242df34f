"""Finds the lines that fit a signature in pieces of many megabytes, and says which signatures a line fits.

Two engines give the same answers: google-re2 runs all patterns, joined into one, over the whole text; where it does
not import, Python's ``re`` looks only at lines that hold the literal text which a pattern requires. What the lines
mean, and who wrote them, is not for this module to say.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..rules.signatures.model import Signature
from .patterns import coarse, for_python, required_literals

#: A longer line is looked at in pieces of this many bytes that overlap, so that a line without an end costs what
#: other text of its length costs, and both engines see the same.
LONGEST_LINE = 8192
OVERLAP = 1024
#: Megabytes that RE2 may use for the automaton of all patterns joined: with 8, a text that reaches many of its
#: states makes it start afresh again and again.
_JOINED_MEMORY = 32
_SET_MEMORY = 16
_ROW_MEMORY = 4
#: Lines that are alike but for their digits have one shape; so many shapes of at most so many bytes are kept.
_SHAPE = bytes(ord("0") if 0x30 <= byte <= 0x39 else byte for byte in range(256))
_MOST_SHAPES = 20_000
_LONGEST_SHAPE = 512
#: A pattern that fits no text.
_NOTHING = "[^\\x00-\\xff]"


class Matcher:
    """Looks for all signatures at once.

    :param engine: ``re2`` or ``re``; by default RE2 where it imports
    """

    def __init__(self, signatures: Sequence[Signature], *, engine: str | None = None) -> None:
        self.rows = tuple(signatures)
        self.engine = engine or ("re2" if _imports_re2() else "re")
        # text is searched as Latin-1, where a character beyond ASCII is the bytes that it has in UTF-8
        patterns = [row.pattern.encode().decode("latin-1") for row in self.rows]
        self._engine: _RE2 | _Plain = (_RE2 if self.engine == "re2" else _Plain)(patterns)

    def broken(self) -> list[tuple[Signature, str]]:
        """Rows whose pattern is in no syntax that the engine reads, with the reason; they fit nothing."""
        self._engine.compile_all()
        return [(self.rows[number], why) for number, why in sorted(self._engine.broken.items())]

    def spans(self, text: bytes, start: int = 0, without: frozenset[int] = frozenset()) -> Iterator[tuple[int, int]]:
        """Where the lines stand that fit a signature, in order, each once, without their line breaks.

        :param text: whole lines
        :param start: where a line begins
        :param without: numbers of rows that don't count
        """
        return self._engine.spans(text, start, without)

    def fitting(self, line: bytes) -> list[tuple[int, dict[str, str]]]:
        """The numbers of the rows that a line fits, in their order, each with its named groups that took part."""
        return [
            (number, {name: value.decode("utf-8", "replace") for name, value in groups.items() if value is not None})
            for number, groups in self._engine.fitting(line)
        ]

    def identify(self, line: bytes) -> list[tuple[Signature, dict[str, str]]]:
        """The signatures that a line fits, in their order, each with its named groups that took part."""
        return [(self.rows[number], groups) for number, groups in self.fitting(line)]


def _imports_re2() -> bool:
    try:
        import re2  # noqa: F401
    except ImportError:
        return False
    return True


def _options(megabytes: int) -> Any:
    import re2

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.max_mem = megabytes << 20
    options.log_errors = False
    # no class such as [^'] may run over the end of a line
    options.never_nl = True
    return options


def _compile_re2(pattern: str, megabytes: int = _ROW_MEMORY) -> Any:
    """
    :raises ValueError: RE2 does not read the pattern
    """
    import re2

    try:
        return re2.compile(pattern.encode("latin-1"), _options(megabytes))
    except re2.error as error:
        why = error.args[0] if error.args else error
        raise ValueError(why.decode("latin-1") if isinstance(why, bytes) else str(why)) from None


def _compile_plain(pattern: str) -> re.Pattern[bytes]:
    """
    :raises ValueError: ``re`` does not read the pattern
    """
    try:
        return re.compile(for_python(pattern).encode("latin-1"))
    except re.error as error:
        raise ValueError(str(error)) from None


def _line_at(text: bytes, place: int) -> tuple[int, int]:
    end = text.find(b"\n", place)
    return text.rfind(b"\n", 0, place) + 1, len(text) if end < 0 else end


def _pieces(start: int, end: int) -> Iterator[tuple[int, int]]:
    """A line as it is looked at: whole, or in overlapping pieces that depend on nothing but its length."""
    while end - start > LONGEST_LINE:
        yield start, start + LONGEST_LINE
        start += LONGEST_LINE - OVERLAP
    yield start, end


class _Rows:
    """The single patterns, compiled when they are needed: few of them ever are."""

    def __init__(self, patterns: Sequence[str], compiled: Callable[[str], Any]) -> None:
        self._patterns = patterns
        self._compiled = compiled
        self._searches: dict[int, Callable[[bytes], Any]] = {}
        #: numbers of patterns that can't be compiled, with the reason
        self.broken: dict[int, str] = {}

    def compile_all(self) -> None:
        """Find all that can't be compiled."""
        for number in range(len(self._patterns)):
            self.search(number, b"")

    def search(self, number: int, line: bytes) -> Any:
        """Match one line against one pattern."""
        search = self._searches.get(number)
        if search is None:
            try:
                search = self._compiled(self._patterns[number]).search
            except ValueError as error:
                self.broken[number] = str(error)
                search = re.compile(_NOTHING.encode()).search
            self._searches[number] = search
        return search(line)


class _RE2(_Rows):
    """Linear in the length of the text, whatever the patterns and the text are."""

    def __init__(self, patterns: Sequence[str]) -> None:
        import re2

        super().__init__(patterns, _compile_re2)
        self._re2 = re2
        self._coarse = [coarse(pattern) for pattern in patterns]
        self._joined: dict[frozenset[int], Any] = {}
        #: the line that was asked for last, and its rows: whoever finds a line asks for what it fits next
        self._last: tuple[bytes | None, list[tuple[int, Any]]] = (None, [])
        self._set = re2.Set.SearchSet(_options(_SET_MEMORY))
        for number, pattern in enumerate(self._coarse):
            try:
                self._set.Add(pattern.encode("latin-1"))
            except re2.error as error:
                self.broken[number] = str(error)
                self._coarse[number] = _NOTHING
                self._set.Add(_NOTHING.encode())
        if patterns:
            self._set.Compile()

    def _search(self, without: frozenset[int]) -> Any:
        if without not in self._joined:
            kept = [f"(?:{pattern})" for number, pattern in enumerate(self._coarse) if number not in without]
            joined = "|".join(kept) if kept else _NOTHING
            self._joined.clear()
            self._joined[without] = _compile_re2(joined, _JOINED_MEMORY)
            # its cache of patterns would keep the automata of former ones
            self._re2.purge()
        return self._joined[without].search

    def spans(self, text: bytes, start: int, without: frozenset[int]) -> Iterator[tuple[int, int]]:
        search = self._search(without)
        while start < len(text) and (match := search(text, start)) is not None:
            first, end = _line_at(text, match.start())
            for piece in _pieces(first, end):
                if any(number not in without for number, _ in self._matches(text[slice(*piece)])):
                    yield piece
            start = end + 1

    def _matches(self, line: bytes) -> list[tuple[int, Any]]:
        if line != self._last[0]:
            numbers = self._set.Match(line) if self._patterns else ()
            # a set that is out of memory answers as if nothing fitted
            if not numbers and self._search(frozenset())(line) is not None:
                numbers = range(len(self._patterns))
            matches = [(number, self.search(number, line)) for number in sorted(numbers or ())]
            self._last = line, [(number, match) for number, match in matches if match is not None]
        return self._last[1]

    def fitting(self, line: bytes) -> Iterator[tuple[int, dict[str, bytes | None]]]:
        for number, match in self._matches(line):
            names = match.re.groupindex
            yield number, {name.decode("latin-1"): match[names[name]] for name in sorted(names, key=names.__getitem__)}


class _Plain(_Rows):
    """Python's ``re``, which would need seconds for each megabyte if it had to try each pattern at each place.

    Most lines of a log are alike but for their numbers, so each such shape is asked only once for the texts that the
    patterns require.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        super().__init__(patterns, _compile_plain)
        self._needs: dict[bytes, list[int]] = defaultdict(list)
        self._needs_lower: dict[bytes, list[int]] = defaultdict(list)
        for number, pattern in enumerate(patterns):
            literals, exact = required_literals(pattern)
            for literal in literals or {b""}:
                (self._needs if exact else self._needs_lower)[literal.translate(_SHAPE)].append(number)
        self._shapes: dict[bytes, tuple[int, ...]] = {}

    def spans(self, text: bytes, start: int, without: frozenset[int]) -> Iterator[tuple[int, int]]:
        known = self._shapes.get
        for shape in text[start:].translate(_SHAPE).split(b"\n"):
            end = start + len(shape)
            numbers = known(shape)
            if numbers is None:
                numbers = self._candidates(shape)
            if numbers and start < len(text):
                for piece in _pieces(start, end):
                    line = text[slice(*piece)]
                    if any(self.search(number, line) for number in numbers if number not in without):
                        yield piece
            start = end + 1

    def fitting(self, line: bytes) -> Iterator[tuple[int, dict[str, bytes | None]]]:
        for number in self._candidates(line.translate(_SHAPE)):
            if match := self.search(number, line):
                yield number, match.groupdict()

    def _candidates(self, shape: bytes) -> tuple[int, ...]:
        """The numbers of the rows whose required texts a line of this shape holds."""
        numbers = self._shapes.get(shape)
        if numbers is None:
            found = [number for literal, those in self._needs.items() if literal in shape for number in those]
            if self._needs_lower:
                lower = shape.lower()
                found += [
                    number for literal, those in self._needs_lower.items() if literal in lower for number in those
                ]
            numbers = tuple(sorted(set(found)))
            if len(shape) <= _LONGEST_SHAPE:
                if len(self._shapes) >= _MOST_SHAPES:
                    self._shapes.clear()
                self._shapes[shape] = numbers
        return numbers
