"""Find rules by the text of an error message, as the pages of the rules list them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from distcheck.core.model import Rule

from .messages import MESSAGES

#: Where the pages stand in a checkout or an installed package; in ``distcheck.pyz`` it is no folder.
FOLDER = Path(__file__).with_name("pages")

#: The sections of a page, in this order. ``Error messages``, ``Limits`` and ``References`` only where there are any.
SECTIONS = ("What it detects", "Why it matters", "How to fix it", "Example", "Error messages", "Limits", "References")

#: Shortest literal part of a message that may decide, in characters: shorter ones are in every log.
_SHORTEST_PART = 6


#: Where a text is a log rather than a message, its words are no evidence; only what stands there literally is.
_MOST_LINES = 20
_LONGEST_LINE = 1000


class Match(NamedTuple):
    """A rule whose message is in a pasted text."""

    code: str
    message: str
    score: int


def find_by_message(text: str, rules: Iterable[Rule]) -> list[Match]:
    """Return the rules whose error messages stand in a text, the most specific first.

    A message counts by the characters that it shares with the text; where none stands there literally, the messages
    whose words do are taken.
    """
    wanted = _normal(text)
    # words count within one line only: in a whole log every word stands somewhere
    lines = [_words(line) for line in text.splitlines()[:_MOST_LINES] if len(line) < _LONGEST_LINE]
    found: list[Match] = []
    near: list[Match] = []
    for rule in rules:
        for message in MESSAGES.get(rule.code, ()):
            parts = [part for part in _normal(message).split("…") if len(part.strip()) >= _SHORTEST_PART]
            if parts and _in_order(parts, wanted):
                found.append(Match(rule.code, message, sum(map(len, parts))))
            elif parts and len(wanted) >= _SHORTEST_PART and any(wanted in part for part in parts):
                near.append(Match(rule.code, message, len(wanted)))
            else:
                words = _words(message)
                shared: set[str] = max((words & line for line in lines), key=len, default=set())
                if len(shared) >= 3 and 4 * len(shared) >= 3 * len(words):
                    near.append(Match(rule.code, message, sum(map(len, shared)) // 2))
    best: dict[str, Match] = {}
    for match in sorted(found or near, key=lambda item: (-item.score, item.code)):
        best.setdefault(match.code, match)
    return list(best.values())


def _normal(text: str) -> str:
    return " ".join(text.lower().split())


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z_]{3,}", text.lower()))


def _in_order(parts: list[str], text: str) -> bool:
    place = 0
    for part in parts:
        place = text.find(part.strip(), place)
        if place < 0:
            return False
        place += len(part)
    return True
