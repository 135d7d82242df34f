"""The pages of the rules: reading them, and finding a rule by the text of an error message.

The pages stand as Markdown in ``pages/``; ``explain`` prints them and the documentation includes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from distcheck.core.model import Rule
from distcheck.core.resources import read_shipped

#: Where the pages stand in a checkout or an installed package; in ``distcheck.pyz`` it is no folder.
FOLDER = Path(__file__).with_name("pages")

#: What every page holds, in this order; ``Error messages`` only where there are any.
SECTIONS = ("What it means", "Why it hurts", "How to mend it", "Bad", "Good", "Error messages", "References")

#: Shortest literal part of a message that may decide, in characters: shorter ones are in every log.
_SHORTEST_PART = 6


#: Where a text is a log rather than a message, its words are no evidence; only what stands there literally is.
_MOST_LINES = 20
_LONGEST_LINE = 1000


class Page(NamedTuple):
    """A page in its parts."""

    code: str
    name: str
    summary: str
    #: Markdown by section
    sections: dict[str, str]
    text: str

    @property
    def messages(self) -> tuple[str, ...]:
        """The literal error messages, with … for what varies."""
        return tuple(re.findall(r"^- `(.+)`", self.sections.get("Error messages", ""), re.MULTILINE))


def read_page(code: str) -> Page | None:
    """The page of a rule, None where it has none yet."""
    try:
        text = read_shipped("distcheck.rules", f"pages/{code}.md")
    except FileNotFoundError:
        return None
    return parse_page(text.decode())


def parse_page(text: str) -> Page:
    """A page from its Markdown; raises ValueError where its first line is no title."""
    head, *parts = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)
    title = re.match(r"# (DC\d+|[A-Z]+\d+) ([\w-]+)\n", head)
    if title is None:
        raise ValueError(f"a page begins with '# CODE name', not with {text[:40]!r}")
    sections = {name: body.strip() for name, body in zip(parts[::2], parts[1::2], strict=True)}
    return Page(title[1], title[2], head[title.end() :].strip(), sections, text)


class Match(NamedTuple):
    """A rule whose message is in a pasted text."""

    code: str
    message: str
    score: int


def find_by_message(text: str, rules: Iterable[Rule]) -> list[Match]:
    """The rules whose error messages stand in a text, the most telling first.

    A message counts by the characters that it shares with the text; where none stands there literally, the messages
    whose words do are taken.
    """
    wanted = _normal(text)
    # words count within one line only: in a whole log every word stands somewhere
    lines = [_words(line) for line in text.splitlines()[:_MOST_LINES] if len(line) < _LONGEST_LINE]
    found: list[Match] = []
    near: list[Match] = []
    for rule in rules:
        page = read_page(rule.code)
        for message in () if page is None else page.messages:
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
