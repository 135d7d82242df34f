"""What the pattern of a signature requires of a line, and coarser patterns that are quicker to search for.

Reads the syntax that RE2 and Python's ``re`` share, as far as :mod:`distcheck.core.signature` allows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

IGNORE_CASE = "(?i)"
#: What RE2 calls white space; Python's counts the vertical tab as well.
_SPACE = "\\t\\n\\f\\r "
#: A repetition of up to so many is left as it is in a coarser pattern; RE2 writes each of a longer one out.
_SHORT = 4
#: Literal characters after which a coarser pattern ends: few ordinary lines hold such a text by chance.
_ENOUGH = 16

#: Characters at the end of a text that is cut off: they must stand in one literal text of the pattern.
_TAIL = 4
#: Literal characters of a pattern that a text must hold where it is cut off: more than any name of a package.
_LEAST_OF_A_CUT = 20


class Token(NamedTuple):
    """A piece of a pattern."""

    #: ``literal`` (text is the character itself), ``space`` (``\\s``), ``class`` (``[…]``), ``open``, ``close``,
    #: ``or``, ``repeat``, ``zero-width`` (``\\b``), ``other``
    kind: str
    text: str
    #: as written
    raw: str


class _PatternItem(NamedTuple):
    """A character, a class, or a group, with how often it stands there."""

    kind: str
    text: str
    raw: str
    repeat: str = ""
    inner: tuple[tuple[_PatternItem, ...], ...] = ()

    @property
    def optional(self) -> bool:
        first = self.repeat[:1]
        return bool(first) and first in "*?" if first != "{" else re.match(r"\{0+[,}]", self.repeat) is not None


_Sequence = tuple[_PatternItem, ...]

_TOKEN = re.compile(
    r"(?P<class>\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\])|(?P<open>\((?:\?(?:P<\w+>|[a-zA-Z\-]*:|[^)]*\)))?)|(?P<close>\))"
    r"|(?P<or>\|)|(?P<repeat>[*+?]\??|\{\d+(?:,\d*)?\}\??)|(?P<hex>\\x[0-9A-Fa-f]{2})|(?P<escape>\\.)|(?P<other>[.^$])"
    r"|(?P<char>.)",
    re.DOTALL,
)
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_NAMED = {"s": "space", "b": "zero-width", "B": "zero-width"}


def tokens_of(pattern: str) -> Iterator[Token]:
    """The pattern in pieces, as written."""
    for match in _TOKEN.finditer(pattern):
        yield _token(match.lastgroup or "", match[0])


@cache
def _token(kind: str, raw: str) -> Token:
    """Return the token of a piece; cached, since the signatures consist of 30,000 pieces and few different ones."""
    if kind == "hex":
        return Token("literal", chr(int(raw[2:], 16)), raw)
    if kind == "char":
        return Token("literal", raw, raw)
    if kind == "escape" and raw[1] in _CONTROLS:
        return Token("literal", _CONTROLS[raw[1]], raw)
    if kind == "escape":
        return Token(_NAMED.get(raw[1], "other" if raw[1].isalnum() else "literal"), raw[1], raw)
    return Token(kind, raw, raw)


def without_captures(pattern: str) -> str:
    """The same pattern with no group that captures, as a part of a larger one."""
    plain = "".join(
        "(?:" if token.kind == "open" and (token.raw == "(" or token.raw.startswith("(?P<")) else token.raw
        for token in tokens_of(pattern.removeprefix(IGNORE_CASE))
    )
    return f"(?i:{plain})" if pattern.startswith(IGNORE_CASE) else plain


def for_python(pattern: str) -> str:
    """The pattern for ``re``, where it means what it means for RE2."""

    def translated(token: Token) -> str:
        if token.kind == "space":
            return f"[{_SPACE}]"
        if token.kind == "class":
            return re.sub(r"\\.", lambda match: _SPACE if match[0] == "\\s" else match[0], token.raw)
        return token.raw

    return "".join(map(translated, tokens_of(pattern)))


def required_literals(pattern: str) -> tuple[frozenset[bytes], bool]:
    """Texts one of which stands in every line that the pattern fits, and whether it stands there as it is.

    Empty where the pattern requires none. For a pattern that ignores case they are in lower case, to be searched in
    text in lower case.
    """
    texts = _required(_parsed(pattern))
    if pattern.startswith(IGNORE_CASE):
        return frozenset(text.lower().encode("latin-1") for text in texts), False
    return frozenset(text.encode("latin-1") for text in texts), True


def coarse(pattern: str) -> str:
    """A pattern without captures that fits wherever this one fits, and rarely elsewhere.

    Long bounded repetitions have no bound (RE2 writes each of ``.{0,300}`` out, and has a state for each), what stands
    before the first literal text is dropped, and what comes after enough of it.
    """
    joined = "|".join("".join(map(_loose, _cut(sequence))) for sequence in _parsed(pattern))
    return f"(?i:{joined})" if pattern.startswith(IGNORE_CASE) else joined


def ends_within(text: str, pattern: str) -> bool:
    """Return whether a text is cut off within what a pattern fits, after enough literal characters of it."""
    fold = pattern.startswith(IGNORE_CASE)
    text = text.lower() if fold else text
    for sequence in _parsed(pattern.lower() if fold else pattern):
        for begin in _begins(sequence, text[-_TAIL:], "", 0, ""):
            if re.search(for_python(begin) + "$", text):
                return True
    return False


def _begins(sequence: _Sequence, tail: str, before: str, weight: int, run: str) -> Iterator[str]:
    """Return the beginnings of a pattern whose literal text ends with a tail.

    :param before: the pattern before this sequence
    :param weight: the literal characters in it
    :param run: those at its end
    """
    for item in sequence:
        if item.kind == "literal" and not item.repeat:
            run += item.text
            before, weight = before + item.raw, weight + 1
            if weight >= _LEAST_OF_A_CUT and run.endswith(tail):
                yield before
            continue
        # what a pattern can do without is in other lines as well
        for alternative in () if item.optional else item.inner:
            yield from _begins(alternative, tail, before, weight, run)
        run = ""
        before, weight = before + _loose(item), weight + _weight(item)


def _parsed(pattern: str) -> tuple[_Sequence, ...]:
    tokens = list(tokens_of(pattern.removeprefix(IGNORE_CASE)))[::-1]
    return _alternatives(tokens)


def _alternatives(tokens: list[Token]) -> tuple[_Sequence, ...]:
    """Take tokens from the end of the list up to the end of the group."""
    sequences: list[list[_PatternItem]] = [[]]
    while tokens:
        token = tokens.pop()
        if token.kind == "close":
            break
        if token.kind == "or":
            sequences.append([])
        elif token.kind == "repeat":
            if sequences[-1]:
                sequences[-1][-1] = sequences[-1][-1]._replace(repeat=token.raw)
        elif token.kind == "open":
            sequences[-1].append(_PatternItem("group", "", "", inner=_alternatives(tokens)))
        else:
            sequences[-1].append(_PatternItem(token.kind, token.text, token.raw))
    return tuple(map(tuple, sequences))


def _required(sequences: tuple[_Sequence, ...]) -> frozenset[str]:
    found: set[str] = set()
    for sequence in sequences:
        best = max(_choices(sequence), key=lambda texts: (min(map(len, texts)), -len(texts)), default=frozenset())
        if not best:
            return frozenset()
        found |= best
    return frozenset(found)


def _choices(sequence: _Sequence) -> Iterator[frozenset[str]]:
    """Sets of texts, of each of which one is required."""
    run = ""
    for item in sequence:
        if item.kind == "literal" and not item.optional:
            run += item.text
            if not item.repeat:
                continue
        elif item.kind == "zero-width":
            continue
        if run:
            yield frozenset((run,))
        run = ""
        if item.kind == "group" and not item.optional and (texts := _required(item.inner)):
            yield texts
    if run:
        yield frozenset((run,))


def _weight(item: _PatternItem) -> int:
    """Literal characters that an item adds at least."""
    if item.optional:
        return 0
    if item.kind == "group":
        return min(sum(map(_weight, sequence)) for sequence in item.inner)
    return int(item.kind == "literal")


def _cut(sequence: _Sequence) -> _Sequence:
    """The items from the first that has literal text to where there is enough of it."""
    begin = next((number for number, item in enumerate(sequence) if _weight(item)), 0)
    while begin and sequence[begin - 1].kind == "zero-width":
        begin -= 1
    kept, weight = [], 0
    for item in sequence[begin:]:
        kept.append(item)
        weight += _weight(item)
        if weight >= _ENOUGH and (item.kind != "literal" or not item.repeat):
            break
    while kept and kept[-1].optional:
        kept.pop()
    return tuple(kept)


def _loose(item: _PatternItem) -> str:
    text = item.raw
    if item.kind == "group":
        text = "(?:" + "|".join("".join(map(_loose, sequence)) for sequence in item.inner) + ")"
    bounds = re.match(r"\{(\d+)(,)?(\d*)\}", item.repeat)
    if bounds is None:
        return text + item.repeat
    least, most = int(bounds[1]), int(bounds[3] or bounds[1])
    if most <= _SHORT and (bounds[3] or not bounds[2]):
        return text + item.repeat
    return text + ("*" if least == 0 else "+" if least == 1 else f"{{{min(least, _SHORT)},}}")
