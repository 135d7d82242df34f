"""How terms are spelt in the source: their text for messages, the last name of a dotted one, what they mention.

It uses the terms of one summary only, and knows nothing of what they mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .summary import Scope


def render(terms: list[tuple[Any, ...]], number: int, depth: int = 0) -> str:
    """A term as source, shortened: for messages."""
    if number < 0 or depth > 8:
        return "…"
    term = terms[number]
    operation = term[0]

    def part(index: int) -> str:
        return render(terms, index, depth + 1)

    if operation == "k":
        return repr(term[2])
    if operation in ("p", "v", "fn", "cls"):
        return str(term[2])
    if operation == "i":
        return str(term[1]).lstrip(".").rsplit(".", 1)[-1]
    if operation == "a":
        return f"{part(term[1])}.{term[2]}"
    if operation == "c":
        given = [part(item) for item in term[2]] + [f"{name}={part(item)}" for name, item in term[3]]
        return f"{part(term[1])}({', '.join(given)})"
    if operation == "s":
        return f"{part(term[1])}[{part(term[2])}]"
    if operation in ("o", "="):
        return f"{part(term[2])} {term[1]} {part(term[3])}"
    if operation == "u":
        return (
            f"not {part(term[2])}"
            if term[1] == "not"
            else part(term[2])
            if term[1] == "reduced"
            else f"{term[1]}{part(term[2])}"
        )
    if operation in ("and", "or"):
        return f" {operation} ".join(part(item) for item in term[1])
    if operation == "t":
        return f"({', '.join(part(item) for item in term[1])})"
    if operation == "l":
        return f"[{', '.join(part(item) for item in term[1])}]"
    return "…"


def first_parameter(scope: Scope) -> str:
    return scope.parameters[0][0] if scope.parameters else ""


def last_name(terms: list[tuple[Any, ...]], number: int) -> str:
    """Return the last name of a dotted term: what its value is called in the source."""
    if number < 0:
        return ""
    term = terms[number]
    if term[0] in ("p", "v", "a", "fn", "cls"):
        return str(term[2])
    if term[0] == "i":
        return str(term[1]).rsplit(".", 1)[-1]
    if term[0] == "c":
        return last_name(terms, term[1])
    return ""


def last_names(terms: list[tuple[Any, ...]]) -> list[str]:
    """Return the last name of each term of a file; the parts of a term stand before it."""
    names: list[str] = []
    for term in terms:
        kind = term[0]
        if kind in ("p", "v", "a", "fn", "cls"):
            names.append(term[2])
        elif kind == "i":
            names.append(term[1].rsplit(".", 1)[-1])
        else:
            names.append(names[term[1]] if kind == "c" else "")
    return names


def destinations(terms: list[tuple[Any, ...]], call: tuple[Any, ...]) -> Iterable[str]:
    """Return the attributes under which an option is stored."""
    for name, value in call[3]:
        if name == "dest" and terms[value][0] == "k" and isinstance(terms[value][2], str):
            return [terms[value][2]]
    spellings = [terms[item][2] for item in call[2] if terms[item][0] == "k" and isinstance(terms[item][2], str)]
    long = [text for text in spellings if text.startswith("--")] or spellings
    return list(dict.fromkeys(text.lstrip("-").split("/")[0].replace("-", "_") for text in long[:2]))[:1]


def operands(term: tuple[Any, ...]) -> Iterator[int]:
    """Yield the terms that a term is made of; -1 stands for a missing one."""
    kind = term[0]
    if kind in ("a", "e", "w", "x"):
        yield term[1]
    elif kind in ("s", "|", "*"):
        yield from term[1:3]
    elif kind in ("o", "="):
        yield from term[2:4]
    elif kind == "u":
        yield term[2]
    elif kind == "?":
        yield from term[1:4]
    elif kind == "c":
        yield term[1]
        yield from argument_terms(term)
    elif kind in ("and", "or", "t", "l", "f", ":"):
        yield from term[1]
    elif kind == "d":
        yield from term[1]
        yield from term[2]


def argument_terms(call: tuple[Any, ...]) -> tuple[int, ...]:
    """Return the arguments of a call's term: the positional ones, then those by keyword."""
    return (*call[2], *(value for _, value in call[3]))


def mentions(terms: list[tuple[Any, ...]], roots: list[int], parameters: set[str]) -> bool:
    """Return whether one of the terms uses one of these parameters."""
    seen: set[int] = set()
    waiting = list(roots)
    while waiting:
        number = waiting.pop()
        if number < 0 or number in seen:
            continue
        seen.add(number)
        term = terms[number]
        if term[0] in ("p", "v") and term[2] in parameters:
            return True
        # the tests of a comprehension count as well
        waiting.extend(term[1:] if term[0] == "*" else operands(term))
    return False


def plain_bindings(terms: list[tuple[Any, ...]], values: list[int]) -> tuple[tuple[str, Any], ...]:
    """Return what a name is bound to, where that is functions, classes and imports only; else nothing."""
    found = [terms[value] for value in values]
    if any(term[0] not in ("fn", "cls", "i") for term in found):
        return ()
    return tuple((term[0], term[1]) for term in found)
