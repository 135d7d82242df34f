"""Queries on the terms of a summary for several modules of probes: what a term is made of, what is made of it,
where it comes from. It works on tables only and judges nothing.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any

from .program import EventRow, Program, SourceCall, cached
from .redefinitions import standing
from .source_text import argument_terms, last_name, operands
from .values import PARTIAL, RANKS, Atom, Kind, RankCondition, Value

#: A term of the program: (file, term).
Ref = tuple[int, int]

#: Longest way that a value is followed back.
_FARTHEST = 6
_MOST_WAYS = 12


def parts(program: Program, file: int, term: int, stop: Container[str] = ()) -> Iterator[int]:
    """A term and all that it is made of, each once; what terms of the kinds ``stop`` are made of is skipped."""
    terms = program.terms[file]
    seen = {term}
    waiting = [term]
    while waiting:
        number = waiting.pop()
        if number < 0:
            continue
        yield number
        for operand in () if terms[number][0] in stop else operands(terms[number]):
            if operand not in seen:
                seen.add(operand)
                waiting.append(operand)


def payload_terms(row: EventRow) -> Iterator[int]:
    """Yield the terms that an event speaks of."""
    payload = row.payload
    kind = row.kind
    if kind in ("call", "return", "yield", "compare", "or", "choice", "read", "test"):
        yield payload[0]
    elif kind == "bind":
        yield payload[1]
    elif kind == "attribute":
        yield payload[0]
        yield payload[2]
    elif kind == "store":
        yield from payload[:3]


@cached
def users(program: Program, file: int) -> dict[int, list[int]]:
    """Return for each term of a file the terms that are made of it."""
    found: dict[int, list[int]] = {}
    for number, term in enumerate(program.terms[file]):
        for operand in dict.fromkeys(operands(term)):
            found.setdefault(operand, []).append(number)
    return found


def passed_on(program: Program, file: int, term: int) -> list[int]:
    """A term, and those that may be the same value: after a branch, a loop, an in-place collective."""
    terms = program.terms[file]
    found = [term]
    for number in found:
        for user in users(program, file).get(number, ()):
            kind = terms[user]
            same = (
                kind[0] == "|" or (kind[0] == "?" and number in kind[2:4]) or (kind[0] == "u" and kind[1] == "reduced")
            )
            if same and user not in found:
                found.append(user)
    return found


def origins(program: Program, file: int, term: int, depth: int = 0) -> list[Ref]:
    """Where a value may come from: through branches, variables, attributes of ``self``, parameters, returned values.

    What can't be followed further stands for itself.
    """
    found: list[Ref] = []
    for ref in _origins(program, file, term, depth, set()):
        if ref not in found:
            found.append(ref)
    return found[:_MOST_WAYS]


def _origins(program: Program, file: int, number: int, depth: int, seen: set[Ref]) -> Iterator[Ref]:
    if number < 0 or (file, number) in seen:
        return
    seen.add((file, number))
    sources = [] if depth > _FARTHEST else _sources(program, file, number)
    if not sources:
        yield file, number
        return
    for source_file, source in sources[:_MOST_WAYS]:
        yield from _origins(program, source_file, source, depth + 1, seen)


def _sources(program: Program, file: int, number: int) -> list[Ref]:
    """Return the terms that a term takes its value from unchanged; empty where there are none."""
    term = program.terms[file][number]
    kind = term[0]
    if kind == "?":
        return [(file, term[2]), (file, term[3])]
    if kind == "|":
        return [(file, term[1]), (file, term[2])]
    if kind == "u" and term[1] == "reduced":
        return [(file, term[2])]
    if kind == "p":
        return _passed(program, file, term[1], term[2])
    if kind == "v":
        return _bound(program, file, term[1], term[2])
    if kind == "a":
        return _attribute(program, file, term)
    if kind == "c":
        functions = [atom.const for atom in program.evaluator.value(file, term[1]) if atom.kind == Kind.FUNCTION]
        if len(functions) == 1 and not program.is_generator(functions[0]):
            return [
                (functions[0][0], row.payload[0])
                for row in program.rows_of(*functions[0])
                if row.kind == "return" and row.payload[0] >= 0
            ]
        return []
    if kind == "x":
        found: list[Ref] = []
        for source_file, source in origins(program, file, term[1], _FARTHEST - 2):
            inner = program.terms[source_file][source]
            if inner[0] not in ("t", "l") or term[2] >= len(inner[1]):
                return []
            found.append((source_file, inner[1][term[2]]))
        return found
    if kind == "i":
        located = program.index.locate(file, term[1])
        if located is not None and len(located[1]) == 1 and located[0] != file:
            target, (name,) = located
            if name in program.index.scopes[target][0].bindings:
                return [(target, binding) for binding in standing(program.index, target, 0, name)]
    return []


def _passed(program: Program, file: int, scope: int, name: str) -> list[Ref]:
    """Return what the callers of a function pass; empty where one of them is not seen through."""
    own = program.index.scopes[file][scope]
    plain = [parameter for parameter, _, star in own.parameters if star not in ("*", "**")]
    if name not in plain:
        return []
    default = next(default for parameter, default, _ in own.parameters if parameter == name)
    found: list[Ref] = []
    for site in program.evaluator.callers.get((file, scope), ()):
        if site.kind != "call" or site.weak:
            return []
        call = program.terms[site.file][program.events[site.file][site.event][7]]
        value = dict(call[3]).get(name)
        position = plain.index(name) - site.offset
        if value is None and 0 <= position < len(call[2]):
            value = call[2][position]
        if value is not None:
            found.append((site.file, value))
        elif call[4]:
            return []
        elif default >= 0:
            found.append((file, default))
    return found


def given_terms(call: SourceCall, function: tuple[int, int]) -> dict[str, int]:
    """Return the terms that a call gives for the parameters of a function, the object of a method not included."""
    program, scope = call.program, call.program.scope(function)
    positional = [name for name, _, star in scope.parameters if not star]
    bound = scope.owner >= 0 and scope.kind == "function" and not program.evaluator.is_static(function[0], scope)
    if bound and any(atom.kind == Kind.FUNCTION and not atom.of for atom in call.callee):
        bound = False
    found = {}
    for name, _, star in scope.parameters:
        if star in ("*", "**"):
            continue
        position = positional.index(name) - bound if name in positional else None
        term = call.argument_term(position, name)
        if term >= 0:
            found[name] = term
    return found


def given_term(call: SourceCall, function: tuple[int, int], name: str) -> int:
    """Return the term that a call gives for a parameter (also for the object of a method), or -1."""
    positional = [parameter for parameter, _, star in call.program.scope(function).parameters if not star]
    if name not in positional:
        return call.argument_term(None, name)
    bound = any(atom.kind == Kind.FUNCTION and atom.of for atom in call.callee)
    position = positional.index(name) - bound
    if position < 0:
        return call.receiver_term
    return call.argument_term(position, name)


def _bound(program: Program, file: int, scope: int, name: str) -> list[Ref]:
    """Return all that is assigned to a variable."""
    scopes = program.index.scopes[file]
    start = scope
    while scope >= 0:
        own = scopes[scope]
        if own.kind != "class" or scope == start:
            if name in own.bindings:
                return [(file, term) for term in standing(program.index, file, scope, name, start)]
            if any(parameter == name for parameter, _, _ in own.parameters):
                return _passed(program, file, scope, name)
        scope = own.parent
    return []


def _attribute(program: Program, file: int, term: tuple[Any, ...]) -> list[Ref]:
    """Return all that is assigned to an attribute of the object whose method this is."""
    base = program.terms[file][term[1]]
    if base[0] != "p":
        return []
    owner = program.evaluator.owner_of(file, base[1])
    scope = program.index.scopes[file][base[1]]
    if owner < 0 or not scope.parameters or scope.parameters[0][0] != base[2]:
        return []
    stores = program.evaluator.stores.get((file, owner, term[2]), ())
    return [(other, program.events[other][number][9]) for other, number in stores]


def origin_call(program: Program, ref: Ref) -> SourceCall | None:
    """Return the call that a term is; None for anything else."""
    term = program.terms[ref[0]][ref[1]]
    return SourceCall(program, ref[0], term[5]) if term[0] == "c" else None


def first_event(program: Program, ref: Ref) -> EventRow | None:
    """Return the first event that speaks of a term: the statement or call in which it is written."""
    file, term = ref
    for number, event in enumerate(program.events[file]):
        if event[0] not in ("call", "bind", "return", "attribute", "store"):
            continue
        row = program.event_row(file, number)
        if any(term in parts(program, file, root) for root in payload_terms(row)):
            return row
    return None


def mentions(program: Program, row: EventRow, *words: str) -> bool:
    """Return whether a condition around a row speaks of one of these names, as variable, attribute or function."""
    terms = program.terms[row.file]
    for _, node in row.blocks:
        if (node[1] in ("if", "while") or node[1].startswith("exit:")) and node[2] >= 0:
            for number in parts(program, row.file, node[2]):
                term = terms[number]
                if (term[0] in ("v", "p", "a") and term[2] in words) or (
                    term[0] == "i" and term[1].rsplit(".", 1)[-1] in words
                ):
                    return True
    return False


_NUMBERS = frozenset(["int", "float", "bool", "abs", "str"])


def by_rank(program: Program, file: int, term: int, depth: int = 0) -> Atom | RankCondition | None:
    """Return what makes a value differ between ranks: the rank that it is reckoned from, or the test that chooses it.

    None where it may be the same on all of them.
    """
    if term < 0 or depth > _FARTHEST:
        return None
    evaluator = program.evaluator
    parts = program.terms[file][term]
    kind = parts[0]
    if kind == "k":
        return None
    if kind == "?":
        who = evaluator.test(file, parts[1])
        fixed = [_fixed(evaluator.value(file, side)) for side in parts[2:4]]
        return who if who.who in PARTIAL and who.traced and None not in fixed and fixed[0] != fixed[1] else None
    if kind == "o":
        # the quotient and the product of both sides may be the same again
        sides = [by_rank(program, file, side, depth + 1) for side in parts[2:4]]
        return next((side for side in sides if side is not None), None) if None in sides else None
    if kind == "u" and parts[1] in ("-", "+", "~", "not"):
        return by_rank(program, file, parts[2], depth + 1)
    if kind == "=":
        who = evaluator.test(file, term)
        return who if who.who in PARTIAL and who.traced else None
    value = evaluator.value(file, term)
    if value.only(*RANKS, Kind.RANK_DEPENDENT):
        atom = value.get(*RANKS, Kind.RANK_DEPENDENT)
        if atom is not None and atom.const == "argument":  # get_global_rank(): the rank that it is given
            return by_rank(program, file, parts[2][1], depth + 1) if kind == "c" and len(parts[2]) > 1 else None
        return atom if atom is not None and all(one.traced for one in value) and not _is_local(value) else None
    if value.only(Kind.TEST):
        tests = [RankCondition(atom.const, atom.certainty) for atom in value]
        return tests[0] if len(tests) == 1 and tests[0].who in PARTIAL and tests[0].traced else None
    if kind == "c" and last_name(program.terms[file], parts[1]) in _NUMBERS and len(parts[2]) == 1:
        return by_rank(program, file, parts[2][0], depth + 1)
    by_test = [atom.when for atom in value if atom.when.who in PARTIAL and atom.when.traced]
    if by_test and len(value.atoms) > 1 and value.only(Kind.CONST) and len(set(map(repr, value.constants))) > 1:
        return by_test[0]
    if kind in ("v", "p", "a"):
        found = [by_rank(program, *ref, depth + 1) for ref in origins(program, file, term) if ref != (file, term)]
        return found[0] if len(found) == 1 else None
    return None


def _is_local(value: Value) -> bool:
    """Return whether a value is a rank among the processes of a host or a group: the same on several ranks."""
    return value.only(Kind.GROUP_RANK)


def _fixed(value: Value) -> str | None:
    """Return what a value is, as a text to compare; None where it is not one constant or one thing of a library."""
    if len(value.atoms) == 1 and value.atoms[0].kind in (Kind.CONST, Kind.NAMED):
        return repr(value.atoms[0].const)
    return None


def callee_text(call: SourceCall) -> str:
    """Return what a call calls, as the source spells it: ``dist.all_reduce``."""
    text = call.text().partition("(")[0].strip()
    return text if text.replace(".", "").isidentifier() else call.method


# paths of files


def attributes_of(terms: list[tuple[Any, ...]], term: int) -> tuple[int, tuple[str, ...]]:
    """Return the base of a chain of attributes, and their names: ``args.paths.out``."""
    names: list[str] = []
    while term >= 0 and terms[term][0] == "a":
        names.insert(0, terms[term][2])
        term = terms[term][1]
    return term, tuple(names)


def uses_path(terms: list[tuple[Any, ...]], term: int, path: int, folder: bool) -> bool:
    """Return whether one path is the other, or for a folder, lies in it."""
    if same_path(terms, term, path):
        return True
    if not folder:
        return False
    parts = terms[term]
    if parts[0] == "c":
        callee = terms[parts[1]]
        if callee[0] == "a" and callee[2] == "joinpath":
            return uses_path(terms, callee[1], path, True)
        return bool(parts[2]) and uses_path(terms, parts[2][0], path, True)
    if parts[0] == "o" and parts[1] in ("/", "+"):
        return uses_path(terms, parts[2], path, True)
    if parts[0] == "f":
        return bool(parts[1]) and same_path(terms, parts[1][0], path)
    return False


def same_path(terms: list[tuple[Any, ...]], one: int, other: int, depth: int = 0) -> bool:
    """Return whether two terms are alike: the same calls of the same things."""
    if one == other:
        return True
    if one < 0 or other < 0 or depth > 10:
        return False
    first, second = terms[one], terms[other]
    if first[0] != second[0] or first[0] in ("-", "k", "p", "v", "i", "e", "x", "|", "?"):
        return False
    if first[0] == "c":
        if len(first[2]) != len(second[2]) or len(first[3]) != len(second[3]) or first[4] or second[4]:
            return False
        if not same_path(terms, first[1], second[1], depth + 1):
            return False
        given = zip(
            argument_terms(first),
            argument_terms(second),
            strict=True,
        )
        return _is_pure(terms, first[1]) and all(same_path(terms, left, right, depth + 1) for left, right in given)
    if first[0] == "o":
        return first[1] == second[1] and all(same_path(terms, first[part], second[part], depth + 1) for part in (2, 3))
    if first[0] == "a":
        return bool(first[2] == second[2]) and same_path(terms, first[1], second[1], depth + 1)
    if first[0] == "f":
        return len(first[1]) == len(second[1]) and all(
            same_path(terms, left, right, depth + 1) for left, right in zip(first[1], second[1], strict=True)
        )
    return False


def _is_pure(terms: list[tuple[Any, ...]], callee: int) -> bool:
    """Return whether a call gives the same for the same arguments: it makes a path."""
    parts = terms[callee]
    name = parts[2] if parts[0] in ("a", "v") else str(parts[1]).rsplit(".", 1)[-1] if parts[0] == "i" else ""
    return name in ("join", "Path", "str", "fspath", "abspath", "format", "with_suffix", "joinpath")
