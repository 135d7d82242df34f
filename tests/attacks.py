"""Make texts for which a backtracking engine needs much time: for each long repetition of a pattern, a text that enters it and never ends it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

_RE = "re." if sys.version_info >= (3, 11) else "sre"
_parser: Any = importlib.import_module(f"{_RE}_parser" if _RE == "re." else "sre_parse")
_codes: Any = importlib.import_module(f"{_RE}_constants" if _RE == "re." else "sre_constants")

_LETTERS = [chr(number) for number in (*range(9, 14), *range(32, 127), 0xE9, 0xFF)]
_CATEGORIES = {
    _codes.CATEGORY_DIGIT: str.isdigit,
    _codes.CATEGORY_SPACE: str.isspace,
    _codes.CATEGORY_WORD: lambda letter: letter.isalnum() or letter == "_",
    _codes.CATEGORY_NOT_DIGIT: lambda letter: not letter.isdigit(),
    _codes.CATEGORY_NOT_SPACE: lambda letter: not letter.isspace(),
    _codes.CATEGORY_NOT_WORD: lambda letter: not (letter.isalnum() or letter == "_"),
}
#: Repetitions of up to so many cost little.
_FEW = 50
#: What a text is filled with, besides what the repetition itself takes.
_FILLERS = ' a0-./"\t:_,(=[#'
_ENDS = ("\xff", "!\0", "")


def attacks(pattern: str, length: int) -> Iterator[str]:
    """Return texts of about so many characters that may need much time to be searched for a pattern."""
    seen = set()
    for before, body in _repetitions(list(_parser.parse(pattern))):
        allowed = _allowed(*body[0]) if len(body) == 1 else []
        fillers = [_sample(body, turn) or "a" for turn in (0, 1, 7)] + [one for one in _FILLERS if one in allowed]
        for filler in dict.fromkeys(fillers):
            for text in (before + filler * (length // len(filler)), filler * (length // len(filler)),
                         (before + filler) * (length // len(before + filler))):  # fmt: skip
                for end in _ENDS:
                    if (text, end) not in seen:
                        seen.add((text, end))
                        yield text.replace("\n", " ") + end


def _allowed(code: Any, value: Any) -> list[str]:
    """Return the letters that one item of a pattern fits."""
    if code is _codes.LITERAL:
        return [chr(value)]
    if code is _codes.NOT_LITERAL:
        return [letter for letter in _LETTERS if ord(letter) != value]
    if code is _codes.ANY:
        return _LETTERS
    if code is not _codes.IN:
        return []
    fits, inverted = set(), False
    for kind, what in value:
        if kind is _codes.NEGATE:
            inverted = True
        elif kind is _codes.LITERAL:
            fits.add(chr(what))
        elif kind is _codes.RANGE:
            fits.update(map(chr, range(what[0], min(what[1], 255) + 1)))
        elif kind is _codes.CATEGORY:
            fits.update(filter(_CATEGORIES[what], _LETTERS))
    return [letter for letter in _LETTERS if letter not in fits] if inverted else sorted(fits)


def _repeats(code: Any) -> bool:
    return str(code) in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")


def _groups(code: Any, value: Any) -> Sequence[Iterable[Any]]:
    """Return the sequences within an item: alternatives, or the one of a group."""
    if code is _codes.BRANCH:
        return list(value[1])
    if code is _codes.SUBPATTERN:
        return [value[-1]]
    if code in (_codes.ASSERT, _codes.ASSERT_NOT):
        return [value[1]]
    return [value] if str(code) == "ATOMIC_GROUP" else []


def _sample(sequence: Iterable[Any], turn: int, least: int = 0) -> str:
    """Return a text that a sequence fits; another turn takes other letters and alternatives."""
    text = ""
    for code, value in sequence:
        if _repeats(code):
            text += _sample(value[2], turn) * max(value[0], min(turn, value[1], 2), least)
        elif code in (_codes.ASSERT, _codes.ASSERT_NOT):
            continue
        elif groups := _groups(code, value):
            text += _sample(groups[turn % len(groups)], turn)
        elif letters := _allowed(code, value):
            text += letters[turn % len(letters)]
    return text


def _repetitions(sequence: Iterable[Any], before: str = "") -> Iterator[tuple[str, list[Any]]]:
    """Return each long repetition: a text for what stands before it, and what is repeated."""
    for code, value in sequence:
        if _repeats(code):
            if value[1] > _FEW:
                yield before, list(value[2])
            yield from _repetitions(value[2], before)
        for group in _groups(code, value):
            yield from _repetitions(group, before)
        before += _sample([(code, value)], 0, least=1)
