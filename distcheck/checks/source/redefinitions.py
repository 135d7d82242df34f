"""Which function or class a name means where a file defines it several times, as the cells of a notebook do.

A name means the definition that stands last when the code that reads it runs. Code runs when something in the file
calls it between two definitions, or after all of them.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from .link import Index
from .source_text import argument_terms, operands
from .summary import Scope

#: Later than any line.
_NEVER = 1 << 60
#: Of more definitions of one name all are taken.
_MOST_DEFINITIONS = 64


class _Uses(NamedTuple):
    """How a file uses what it defines."""

    #: by scope: the lines of calls that may run code of the file, in order
    calls: dict[int, list[int]]
    #: the scopes of functions that are not only called: something may call them under another name
    kept: set[int]


def standing(index: Index, file: int, scope: int, name: str, reader: int = -1) -> list[int]:
    """Return the terms that a name of a scope may mean, without the definitions that others replace before it is read.

    :param reader: the scope of the code that reads it; -1 for the code of other files
    """
    values: list[int] = index.scopes[file][scope].bindings[name]
    if not 1 < len(values) <= _MOST_DEFINITIONS:
        return values
    known = _definitions(index, file, scope, values)
    if not known:
        return values
    begin, end = 0, _NEVER
    if reader >= 0:
        outer = _outermost(index, file, scope, reader)
        if outer < 0:
            return values
        begin, end = index.scopes[file][outer].end_line, _replaced_at(index, file, scope, outer)
    found = []
    for position, value in enumerate(values):
        until = min(end, _replacing_line(index, file, known, position))
        since = max(begin, known[position].end_line)
        if until == _NEVER or (reader >= 0 and _is_called_between(index, file, scope, since, until)):
            found.append(value)
    return found or values


def _definitions(index: Index, file: int, scope: int, values: list[int]) -> list[Scope]:
    """Return the functions and classes that some terms of a name are; nothing if it is bound to something else too."""
    terms, scopes, classes = index.terms[file], index.scopes[file], index.classes[file]
    found = []
    for value in values:
        kind, number, *_ = (*terms[value], -1)
        if kind not in ("fn", "cls"):
            return []
        one = scopes[number if kind == "fn" else classes[number].scope]
        if one.parent != scope or one.kind == "lambda":
            return []
        found.append(one)
    return found


def _outermost(index: Index, file: int, scope: int, reader: int) -> int:
    """Return the scope around a reader that stands directly in another one; -1 if it runs where it stands."""
    scopes = index.scopes[file]
    found, is_later = -1, False
    while reader != scope and reader >= 0:
        found = reader
        is_later = is_later or scopes[reader].kind != "class"
        reader = scopes[reader].parent
    return found if is_later else -1


def _replaced_at(index: Index, file: int, scope: int, function: int) -> int:
    """Return the line from which on no code can call a function, since another one replaces it and nothing kept it."""
    own = index.scopes[file][function]
    values = index.scopes[file][scope].bindings.get(own.name, [])
    if not 1 < len(values) <= _MOST_DEFINITIONS or own.kind != "function" or own.decorators:
        return _NEVER
    known = _definitions(index, file, scope, values)
    if own not in known or function in _uses(index, file).kept:
        return _NEVER
    return _replacing_line(index, file, known, known.index(own))


def _replacing_line(index: Index, file: int, known: list[Scope], position: int) -> int:
    """Return the line of the first definition that certainly replaces one of several."""
    own = _unconditional(index, file, known[position].block)
    blocks = [_unconditional(index, file, one.block) for one in known[position + 1 :]]
    return next(
        (one.line for one, block in zip(known[position + 1 :], blocks, strict=True) if block in (0, own)), _NEVER
    )


def _unconditional(index: Index, file: int, block: int) -> int:
    """Return the block around code that always runs if the program goes on."""
    blocks = index.blocks[file]
    while block > 0 and blocks[block][1].startswith("exit:"):
        block = blocks[block][0]
    return max(block, 0)


def _is_called_between(index: Index, file: int, scope: int, since: int, until: int) -> bool:
    """Return whether a call in a scope, after one line and before another, may run code that the file defines."""
    if since >= until:
        return False
    lines = _uses(index, file).calls.get(scope, [])
    position = bisect_right(lines, since)
    return position < len(lines) and lines[position] < until


def _uses(index: Index, file: int) -> _Uses:
    """Return how a file uses what it defines."""
    found = index.uses.get(file)
    if found is None:
        found = index.uses[file] = _uses_of(index, file)
    return found


def _uses_of(index: Index, file: int) -> _Uses:
    terms, scopes = index.terms[file], index.scopes[file]
    own: set[int] = set()
    kept: set[int] = set()
    for number, term in enumerate(terms):
        # the terms that a term is made of stand before it
        if (
            term[0] in ("fn", "cls", "p", "-")
            or (term[0] == "v" and any(term[2] in scopes[one].bindings for one in (term[1], 0)))
            or not own.isdisjoint(operands(term))
        ):
            own.add(number)
        given = argument_terms(term) if term[0] == "c" else operands(term)
        kept.update(terms[one][1] for one in given if one >= 0 and terms[one][0] == "fn")
    calls: dict[int, list[int]] = {}
    for event in index.events[file]:
        if event[0] == "call":
            if event[7] in own:
                calls.setdefault(event[1], []).append(event[3])
            continue
        kept.update(
            terms[one][1] for one in event[7:] if type(one) is int and 0 <= one < len(terms) and terms[one][0] == "fn"
        )
    for lines in calls.values():
        lines.sort()
    return _Uses(calls, kept)
