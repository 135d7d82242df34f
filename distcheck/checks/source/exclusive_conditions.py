"""Conditions that cannot hold together, as comparisons of a value with constants show: ``n > 0``, ``n == 0``."""

from __future__ import annotations

import itertools
import operator
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

_NEGATED = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">", "in": "not in", "not in": "in"}
_MIRRORED = {"==": "==", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "in": lambda value, among: value in among, "not in": lambda value, among: value not in among,
}  # fmt: skip
#: A condition: a term, and whether it is true or false.
Condition = tuple[int, bool]


class _Fact(NamedTuple):
    """A comparison of a value with a constant, or with several."""

    operator: str
    constants: tuple[Any, ...]

    def holds(self, value: object) -> bool:
        among: Any = self.constants if self.operator in ("in", "not in") else self.constants[0]
        return _HOLDS[self.operator](value, among)


def contradict(terms: list[tuple[Any, ...]], one: Iterable[Condition], other: Iterable[Condition]) -> bool:
    """Return whether what holds at two places of a function shows that one run does not get to both.

    :param terms: the terms of the file
    """
    first, second = _facts_of(terms, one), _facts_of(terms, other)
    return any(not _can_hold([*first[subject], *second[subject]]) for subject in first.keys() & second.keys())


def _facts_of(terms: list[tuple[Any, ...]], conditions: Iterable[Condition]) -> dict[int, list[_Fact]]:
    found: dict[int, list[_Fact]] = defaultdict(list)
    for term, truth in conditions:
        for subject, fact in _facts(terms, term, truth):
            found[subject].append(fact)
    return found


def _facts(terms: list[tuple[Any, ...]], term: int, truth: bool) -> Iterator[tuple[int, _Fact]]:
    kind, *parts = terms[term]
    if kind == "u" and parts[0] == "not":
        yield from _facts(terms, parts[1], not truth)
    elif kind == ("and" if truth else "or"):
        for part in parts[0]:
            yield from _facts(terms, part, truth)
    elif kind == "=":
        sign, left, right = parts
        if sign in _MIRRORED and terms[left][0] == "k":
            sign, left, right = _MIRRORED[sign], right, left
        given = _constants(terms, right) if sign in _NEGATED else None
        if given is not None and _is_steady(terms, left) and (terms[right][0] != "k") == (sign in ("in", "not in")):
            yield left, _Fact(sign if truth else _NEGATED[sign], given)


def _is_steady(terms: list[tuple[Any, ...]], term: int) -> bool:
    """Return whether a value is the same wherever it stands: a parameter, an option; not what a loop changes."""
    kind = terms[term][0]
    if kind == "p":
        return True
    while terms[term][0] == "a" or (terms[term][0] == "s" and terms[terms[term][2]][0] == "k"):
        term = terms[term][1]
    return kind in ("a", "s") and terms[term][0] in ("p", "v", "c", "i")


def _constants(terms: list[tuple[Any, ...]], term: int) -> tuple[Any, ...] | None:
    """Return a number or text, or those of a tuple or list; None for other values."""
    parts = terms[term]
    if parts[0] == "k":
        return (parts[2],) if parts[1] in ("int", "float", "str") else None
    if parts[0] not in ("t", "l"):
        return None
    found = [_constants(terms, item) for item in parts[1] if terms[item][0] == "k"]
    return None if len(found) < len(parts[1]) or None in found else tuple(one[0] for one in found if one)


def _can_hold(facts: list[_Fact]) -> bool:
    """Return whether a number or text has all these properties: one that they name, or one between or beyond those."""
    named = {value for fact in facts for value in fact.constants}
    if not named:
        return True
    if all(isinstance(value, (int, float)) for value in named):
        ordered = sorted(named)
        between = [(low + high) / 2 for low, high in itertools.pairwise(ordered)]
        values: list[object] = [*ordered, *between, ordered[0] - 1, ordered[-1] + 1]
    elif all(isinstance(value, str) for value in named) and all(fact.operator in _OF_TEXTS for fact in facts):
        values = [*named, object()]
    else:
        return True
    return any(all(fact.holds(value) for fact in facts) for value in values)


_OF_TEXTS = ("==", "!=", "in", "not in")
