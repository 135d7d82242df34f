"""Find the lines that match a signature in pieces of many megabytes, and the signatures of each line.

Two engines give the same answers: google-re2 runs all patterns, joined into one, over the whole text; where it does
not import, Python's ``re`` reads only lines that hold the literal text which a pattern requires. What the lines
mean, and who wrote them, is decided by other modules.
"""

from __future__ import annotations

import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from distcheck.core.signature import Signature
from distcheck.rules.signatures.literals import LITERALS

from .patterns import Token, coarse, for_python, required_literals, tokens_of, without_captures

#: A longer line is read in pieces of this many bytes that overlap, so that a line without an end costs what
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
#: A repetition of up to so many is left as it is.
_SHORT = 4
#: A coarse pattern that found so many lines for nothing is replaced by one that requires all that the row does.
_OFTEN_MISLED = 1000
#: A pattern that fits no text.
_NOTHING = "[^\\x00-\\xff]"


class Matcher:
    """Search for all signatures at once.

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


def pattern_key(pattern: str) -> int:
    """Return the key of a pattern, searched as Latin-1, in the table of texts that patterns require."""
    return zlib.crc32(pattern.encode("latin-1"))


def _imports_re2() -> bool:
    try:
        import re2
    except ImportError:
        return False
    # other bindings of RE2 are imported by the same name, and have no sets of patterns
    return hasattr(re2, "Options") and hasattr(getattr(re2, "Set", None), "SearchSet")


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
    """Return a line as it is searched: whole, or in overlapping pieces that depend only on its length."""
    while end - start > LONGEST_LINE:
        yield start, start + LONGEST_LINE
        start += LONGEST_LINE - OVERLAP
    yield start, end


def _heeds_digits(pattern: str) -> bool:
    """Whether it may matter to a pattern which digit stands somewhere."""
    return any(map(_heeds, tokens_of(pattern)))


def _heeds(token: Token) -> bool:
    if token.kind == "class":
        return re.search(r"\d", re.sub(r"\\[dwsDWS]|0-9", "", token.raw)) is not None
    return token.kind == "literal" and token.text.isdigit()


def _of_any_digits(pattern: str) -> str:
    """A pattern that fits whatever digits stand where this one fits."""
    return "".join(f"(?:{token.raw}|[0-9])" if _heeds(token) else token.raw for token in tokens_of(pattern))


def _unbounded(pattern: str) -> str:
    """A pattern without long bounded repetitions, of which RE2 writes each out."""

    def loose(token: Token) -> str:
        bounds = re.match(r"\{(\d+),?(\d*)\}", token.raw) if token.kind == "repeat" else None
        if bounds is None or int(bounds[2] or bounds[1]) <= _SHORT:
            return token.raw
        return "*" if int(bounds[1]) == 0 else "+"

    return "".join(map(loose, tokens_of(pattern)))


#: The spans of the named groups of a pattern in a line; (-1, -1) for one that took no part.
_Spans = tuple[tuple[str, int, int], ...]


class _LineShape(NamedTuple):
    """What is known of all lines that are alike but for their digits."""

    #: numbers of the rows that they fit, with the spans of their named groups
    fitting: tuple[tuple[int, _Spans], ...]
    #: those that they may fit
    heeding: tuple[int, ...]
    #: those whose coarse pattern may find them
    found: tuple[int, ...]


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
    """Linear in the length of the text, whatever the patterns and the text are.

    Loud text repeats itself but for its numbers: which rows a line fits is found once for each shape, except for the
    rows that heed single digits.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        import re2

        super().__init__(patterns, _compile_re2)
        self._re2 = re2
        self._coarse = [coarse(pattern) for pattern in patterns]
        self._heeding = frozenset(number for number, pattern in enumerate(patterns) if _heeds_digits(pattern))
        self._joined: dict[frozenset[int], Any] = {}
        self._shapes: dict[bytes, _LineShape] = {}
        #: how often the coarse pattern of a row found a line for nothing
        self._misled: dict[int, int] = defaultdict(int)
        self._set = re2.Set.SearchSet(_options(_SET_MEMORY))
        for number, pattern in enumerate(self._coarse):
            try:
                self._set.Add(_of_any_digits(pattern).encode("latin-1"))
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
            useless = True
            for piece in _pieces(first, end):
                if self._fits_any(text[slice(*piece)], without):
                    useless = False
                    yield piece
            if useless and end - first <= LONGEST_LINE and self._sharpen(text[first:end], without):
                search = self._search(without)
            start = end + 1

    def _sharpen(self, line: bytes, without: frozenset[int]) -> bool:
        """Note by whose coarse pattern a line was found for nothing; whether one was replaced that did so often."""
        changed = False
        for number in self._rows_of(line).found:
            if number in without:
                continue
            self._misled[number] += 1
            if self._misled[number] == _OFTEN_MISLED:
                self._coarse[number] = _unbounded(without_captures(self._patterns[number]))
                changed = True
        if changed:
            self._joined.clear()
        return changed

    def _fits_any(self, line: bytes, without: frozenset[int]) -> bool:
        """Whether a row fits that counts."""
        fitting, heeding, _ = self._rows_of(line)
        return any(number not in without for number, _ in fitting) or any(
            number not in without and self.search(number, line) is not None for number in heeding
        )

    def _rows_of(self, line: bytes) -> _LineShape:
        shape = line.translate(_SHAPE)
        known = self._shapes.get(shape)
        if known is not None:
            return known
        numbers = tuple(self._set.Match(shape) or ()) if self._patterns else ()
        # a set that is out of memory answers as if nothing fitted
        unsure = not numbers and self._search(frozenset())(line) is not None
        if unsure:
            numbers = tuple(range(len(self._patterns)))
        found = _LineShape(
            tuple(
                (number, _group_spans(match))
                for number in numbers
                if number not in self._heeding and (match := self.search(number, line)) is not None
            ),
            tuple(number for number in numbers if number in self._heeding),
            tuple(numbers),
        )
        if numbers and not unsure and len(shape) <= _LONGEST_SHAPE:
            if len(self._shapes) >= _MOST_SHAPES:
                self._shapes.clear()
            self._shapes[shape] = found
        return found

    def fitting(self, line: bytes) -> Iterator[tuple[int, dict[str, bytes | None]]]:
        known, heeding, _ = self._rows_of(line)
        fitting = list(known)
        for number in heeding:
            if (match := self.search(number, line)) is not None:
                fitting.append((number, _group_spans(match)))
        # lines of one shape have their groups at the same spans
        for number, spans in sorted(fitting):
            yield number, {name: line[start:end] if start >= 0 else None for name, start, end in spans}


def _group_spans(match: Any) -> _Spans:
    names = match.re.groupindex
    return tuple((name.decode("latin-1"), *match.span(names[name])) for name in sorted(names, key=names.__getitem__))


class _Plain(_Rows):
    """Python's ``re``, which would need seconds for each megabyte if it had to try each pattern at each position.

    Most lines of a log are alike but for their numbers, so each such shape is searched only once for the texts that the
    patterns require.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        super().__init__(patterns, _compile_plain)
        self._needs: dict[bytes, list[int]] = defaultdict(list)
        self._needs_lower: dict[bytes, list[int]] = defaultdict(list)
        for number, pattern in enumerate(patterns):
            literals, exact = LITERALS.get(pattern_key(pattern)) or required_literals(pattern)
            for literal in literals or (b"",):
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
