"""Find rules by the text of an error message, as the pages of the rules list them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from distcheck.core.model import Rule
from distcheck.core.patterns import lazy

from .messages import MESSAGES

#: Where the pages stand in a checkout or an installed package; in ``distcheck.pyz`` it is no folder.
FOLDER = Path(__file__).with_name("pages")

#: The sections of a page, in this order. ``Error messages``, ``Limits`` and ``References`` only where there are any.
SECTIONS = ("What it detects", "Why it matters", "How to fix it", "Example", "Error messages", "Limits", "References")

#: Shortest literal part of a message that may decide, in characters: shorter ones are in every log.
_SHORTEST_PART = 6


#: Longest text that can be a part of a message, and shortest sum of the parts of a shortened paste (``NCCL error in: …
#: unhandled system error``), in characters.
_LONGEST_PASTE, _SHORTEST_SUM = 1000, 16
#: Shortest end of a shortened message that something else stands before.
_SHORTEST_END = 20
#: A text that is a part of the messages of more rules decides nothing (``RuntimeError:``).
_MOST_RULES = 3
_SHORTENED = lazy(r"\s*(?:…|\.\.\.)\s*")


class Match(NamedTuple):
    """A rule whose message is in a pasted text."""

    code: str
    message: str
    score: int


def find_by_message(text: str, rules: Iterable[Rule]) -> list[Match]:
    """Return the rules whose error messages stand in a text, the most specific first.

    A message counts by the characters that it shares with the text. If none is in the text, the text may be a part of
    a message, or its parts around an ellipsis may be: then the shortest such message counts most. Similar words are no
    evidence, and neither is a part of the messages of many rules.
    """
    wanted = _normal(text)
    found: list[Match] = []
    near: list[Match] = []
    for rule in rules:
        for message in MESSAGES.get(rule.code, ()):
            parts = [part for part in _normal(message).split("…") if len(part.strip()) >= _SHORTEST_PART]
            if parts and _in_order(parts, wanted):
                found.append(Match(rule.code, message, sum(map(len, parts))))
            elif is_part(text, message):
                near.append(Match(rule.code, message, -len(message)))
    if not found and len({match.code for match in near}) > _MOST_RULES:
        return []
    best: dict[str, Match] = {}
    for match in sorted(found or near, key=lambda item: (-item.score, item.code)):
        best.setdefault(match.code, match)
    return list(best.values())


def is_part(text: str, message: str) -> bool:
    """Return whether a text is a part of a message, or its parts around an ellipsis are parts in this order.

    Before a shortened message may stand what belongs to no message: a time, a rank, the name of the exception.
    """
    if len(text) > _LONGEST_PASTE:
        return False
    whole = _SHORTENED.split(_normal(text))
    pieces = [piece for piece in whole if len(piece) >= _SHORTEST_PART]
    shortest = _SHORTEST_PART if len(whole) == 1 else _SHORTEST_SUM
    message = _normal(message)
    if sum(map(len, pieces)) >= shortest and _in_order(pieces, message):
        return True
    return len(whole) > 1 and any(_in_order([end, *pieces[1:]], message) for end in _ends(pieces[:1]))


def _ends(pieces: list[str]) -> Iterator[str]:
    """Return the ends of a first piece that are long enough, from the longest; each begins with a word."""
    for piece in pieces:
        for space in re.finditer(r" ", piece):
            if len(piece) - space.end() < _SHORTEST_END:
                return
            yield piece[space.end() :]


def _normal(text: str) -> str:
    return " ".join(text.lower().split())


def _in_order(parts: list[str], text: str) -> bool:
    place = 0
    for part in parts:
        place = _find(part.strip(), text, place)
        if place < 0:
            return False
        place += len(part)
    return True


def _find(part: str, text: str, start: int) -> int:
    """Return where a part stands in a text and cuts no number (signal 1 is not in signal 15), or -1."""
    place = text.find(part, start)
    while place >= 0 and (_is_in_number(text, place) or _is_in_number(text, place + len(part))):
        place = text.find(part, place + 1)
    return place


def _is_in_number(text: str, place: int) -> bool:
    return text[place - 1 : place].isdigit() and text[place : place + 1].isdigit()
