"""Find rules by code or name, and select among them: the rules of distcheck and those of plug-ins."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from .model import Rule
from .registry import rules as known


class UnknownRule(ValueError):  # noqa: N818 - what the user typed, not a failure of ours
    """A text names no rule. The message names the nearest one."""


def find(text: str) -> Rule:
    """Return the rule with this code or name, case-insensitive; raises UnknownRule."""
    found = look_up(text)
    if found is None:
        raise UnknownRule(f"no rule is called {text!r}; {_nearest(text, known().values())}")
    return found


def look_up(text: str) -> Rule | None:
    """Return the rule with this code or name, or None. Unlike :func:`find`, it searches no similar names."""
    wanted = text.strip().lower()
    return next((rule for rule in known().values() if wanted in (rule.code.lower(), rule.name)), None)


class Selection(NamedTuple):
    """The selected rules: by code, by prefix of a code (``DC4``), or by name; ``ALL`` selects all.

    As in Ruff, the more exact entry wins: ``select=DC4 ignore=DC401`` keeps the other DC4xx rules.
    """

    select: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        select: Iterable[str] = (),
        extend_select: Iterable[str] = (),
        ignore: Iterable[str] = (),
    ) -> Selection:
        """Return a selection from what users type (commas allowed).

        :param select: only these; by default all rules that are on
        :param extend_select: these in addition
        :param ignore: not these
        :raises UnknownRule: an entry names no rule
        """
        return cls(*(tuple(_entries(part)) for part in (select, extend_select, ignore)))

    def takes(self, rule: Rule) -> bool:
        """Return whether a rule is selected."""
        chosen = max(_weight(rule, self.select), _weight(rule, self.extend_select))
        if not self.select and rule.on_by_default:
            chosen = max(chosen, 0)
        return chosen >= 0 and chosen > _weight(rule, self.ignore)

    def matches(self, rule: Rule) -> bool:
        """Return whether one of the selected entries names the rule, for ``--must-check``."""
        return _weight(rule, self.select) >= 0


def _weight(rule: Rule, entries: Iterable[str]) -> int:
    """Return how exactly an entry names the rule: its length, 1 for ALL, -1 if none does."""
    best = -1
    for entry in entries:
        if entry == "ALL":
            best = max(best, 1)
        elif rule.code.startswith(entry):
            best = max(best, len(entry))
    return best


def _entries(texts: Iterable[str]) -> Iterator[str]:
    rules = known()
    for text in texts:
        for entry in filter(None, (part.strip() for part in text.split(","))):
            upper = entry.upper()
            if upper == "ALL" or any(code.startswith(upper) for code in rules):
                yield upper
            else:
                yield find(entry).code


def _nearest(text: str, rules: Collection[Rule]) -> str:
    import difflib

    longer = [rule for rule in rules if rule.code.startswith(text.strip().upper())]
    if text.strip() and longer:
        return f"did you mean {longer[0].code} ({longer[0].name})? 'distcheck rules' lists all"
    by_text = {name: rule for rule in rules for name in (rule.code.lower(), rule.name)}
    close = difflib.get_close_matches(text.strip().lower(), by_text, n=1, cutoff=0.5)
    if close:
        return f"did you mean {by_text[close[0]].code} ({by_text[close[0]].name})? 'distcheck rules' lists all"
    return "'distcheck rules' lists all"
