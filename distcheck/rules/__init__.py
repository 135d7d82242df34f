"""The rules: ``rules.DC401`` and its siblings, looking them up by code or name, and selecting among them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from distcheck.core.model import Rule

from .catalogue import *  # noqa: F403 - the catalogue is the contents of this package
from .catalogue import ALL


class UnknownRule(ValueError):  # noqa: N818 - what the user typed, not a failure of ours
    """A text that names no rule; the message names the nearest one."""


def known(extra: Iterable[Rule] = ()) -> dict[str, Rule]:
    """All rules by code, those of plug-ins given as ``extra`` included."""
    return {rule.code: rule for rule in (*ALL, *extra)}


def find(text: str, extra: Iterable[Rule] = ()) -> Rule:
    """The rule with this code or name, in any case; raises UnknownRule."""
    found = look_up(text, extra)
    if found is None:
        raise UnknownRule(f"no rule is called {text!r}; {_nearest(text, known(extra).values())}")
    return found


def look_up(text: str, extra: Iterable[Rule] = ()) -> Rule | None:
    """As :func:`find`, with None for what names no rule: the nearest names take long to be found."""
    wanted = text.strip().lower()
    return next((rule for rule in known(extra).values() if wanted in (rule.code.lower(), rule.name)), None)


class Selection(NamedTuple):
    """Which rules may speak: by code, by prefix of a code (``DC4``), or by name; ``ALL`` selects all.

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
        *,
        extra: Iterable[Rule] = (),
    ) -> Selection:
        """A selection from what users type (commas allowed).

        :param select: only these; by default all rules that are on
        :param extend_select: these as well
        :param ignore: not these
        :param extra: the rules of plug-ins
        :raises UnknownRule: for what names no rule
        """
        extra = tuple(extra)
        return cls(*(tuple(_entries(part, extra)) for part in (select, extend_select, ignore)))

    def takes(self, rule: Rule) -> bool:
        """Whether a rule is selected."""
        chosen = max(_weight(rule, self.select), _weight(rule, self.extend_select))
        if not self.select and rule.on_by_default:
            chosen = max(chosen, 0)
        return chosen >= 0 and chosen > _weight(rule, self.ignore)

    def matches(self, rule: Rule) -> bool:
        """Whether one of the selected entries names the rule: for ``--must-check``."""
        return _weight(rule, self.select) >= 0


def _weight(rule: Rule, entries: Iterable[str]) -> int:
    """How exactly one of the entries names the rule: its length, 1 for ALL, -1 where none does."""
    best = -1
    for entry in entries:
        if entry == "ALL":
            best = max(best, 1)
        elif rule.code.startswith(entry):
            best = max(best, len(entry))
    return best


def _entries(texts: Iterable[str], extra: tuple[Rule, ...]) -> Iterator[str]:
    rules = known(extra)
    for text in texts:
        for entry in filter(None, (part.strip() for part in text.split(","))):
            upper = entry.upper()
            if upper == "ALL" or any(code.startswith(upper) for code in rules):
                yield upper
            else:
                yield find(entry, extra).code


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
