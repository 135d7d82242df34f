"""The -1 of a local rank that no launcher has set: whether it is still what a call is given.

It counts only if it is proven for that call: the default of a variable or an option, on a way on which nothing else is
assigned, no test and no assertion keeps it away, and nothing that can't be seen is given the options.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from distcheck.core.patterns import lazy

from . import call_paths, path_values
from .conditions import conditions
from .program import EventRow, Program, SourceCall, cached
from .source_text import last_name
from .values import RANKS, Kind, NoConstant, Who
from .vocabulary import VARIABLES

_DEEPEST = 12
_MOST_CALLERS = 6
_READS = ("os.environ.get", "os.getenv", "os.environ.setdefault")
_NUMBERS = frozenset(["int", "str", "float"])
#: What a condition speaks of that may have to do with the launcher.
_OF_LAUNCHERS = lazy(r"rank|dist|launch|environ|slurm|world|gpu|cuda|device|node|nproc|multi|single", re.I)
#: Functions that may fill in options that they are given.
_SETS_UP = lazy(r"init|set_?up|dist|prepare|config|launch|fill|update|adjust|process", re.I)


#: What starts a group of DeepSpeed: its launcher passes the option, and ``initialize`` writes LOCAL_RANK into the
#: options that it is given (deepspeed 0.17, runtime/engine.py, ``_configure_args``).
_FILLED_BY_DEEPSPEED = ("deepspeed.initialize", "deepspeed.init_distributed", "deepspeed.comm.init_distributed")


class UnsetRank(NamedTuple):
    """Where a -1 comes from: the variable, or the option of the command line."""

    variable: str
    row: EventRow
    is_option: bool


def unset_rank(row: EventRow, term: int, tests: Iterable[tuple[int, bool]] = (), depth: int = 0) -> UnsetRank | None:
    """Return which unset variable or option a term is -1 by, at this row; None where that is not proven.

    :param tests: conditions of the conditional expression that the term is an arm of
    """
    if term < 0 or depth > _DEEPEST or _keeps_out(row, tests):
        return None
    return _unset_by(row.program, row, term, depth)


# many ways up lead through the same callers: each term is followed once
@cached
def _unset_by(program: Program, row: EventRow, term: int, depth: int) -> UnsetRank | None:
    parts = row.terms[term]
    kind = parts[0]
    if kind == "c":
        return _of_call(row, parts, depth)
    if kind == "f" or (kind == "o" and parts[1] == "+"):
        found = (unset_rank(row, part, (), depth + 1) for part in (parts[1] if kind == "f" else parts[2:4]))
        return next((one for one in found if one is not None), None)
    if kind in ("?", "|"):
        answer = holds_for_negative(program, row.file, parts[1]) if kind == "?" else None
        arms = parts[-2:] if answer is None else parts[2:3] if answer else parts[3:4]
        every = [unset_rank(row, arm, (), depth + 1) for arm in arms]
        return every[0] if None not in every else None
    if kind in ("p", "v"):
        every = [unset_rank(one, given, (), depth + 1) for one, given in _assigned(row, parts)]
        return every[0] if every and None not in every else None
    return _of_attribute(row, parts, depth) if kind == "a" else None


def _of_call(row: EventRow, parts: tuple[Any, ...], depth: int) -> UnsetRank | None:
    call = SourceCall(row.program, row.file, parts[5])
    if call.positional == 1 and call.callee.named(*_NUMBERS):
        return unset_rank(row, call.argument_term(0), (), depth + 1)
    if call.is_to(*_READS) and len(call.callee.atoms) == 1:
        name, default = call.argument(0, "key"), call.argument(1, "default")
        if (
            name is not None
            and default is not None
            and VARIABLES.get(name.constant if isinstance(name.constant, str) else "") in RANKS
            and default.constant in (-1, "-1")
        ):
            return UnsetRank(str(name.constant), call, False)
    return None


def _assigned(row: EventRow, parts: tuple[Any, ...]) -> list[tuple[EventRow, int]]:
    """Return what a variable or parameter is given, all of it, with the rows where that happens; empty if unknown."""
    program, file = row.program, row.file
    scopes = program.index.scopes[file]
    scope = parts[1]
    while scope >= 0:
        own = scopes[scope]
        if own.kind != "class" or scope == parts[1]:
            bound = parts[0] == "v" and parts[2] in own.bindings
            if any(name == parts[2] for name, _, _ in own.parameters):
                return [] if bound else _given_by_callers(program, (file, scope), parts[2])
            if bound:
                binds = [
                    one for one in program.rows_of(file, scope) if one.kind == "bind" and one.payload[0] == parts[2]
                ]
                once = len(binds) == len(own.bindings[parts[2]]) == 1
                return [(binds[0], binds[0].payload[1])] if once else []
        scope = own.parent
    return []


def _given_by_callers(program: Program, function: tuple[int, int], name: str) -> list[tuple[EventRow, int]]:
    sites = program.evaluator.callers.get(function, [])
    if not sites or len(sites) > _MOST_CALLERS or any(site.weak or site.kind != "call" for site in sites):
        return []
    found: list[tuple[EventRow, int]] = []
    for site in sites:
        call = SourceCall(program, site.file, site.event)
        given = path_values.passed_term(program, call, function, name)
        if given is None or given[0] != call.file:
            return []
        found.append((call, given[1]))
    return found


# attributes: of options, of objects


def _of_attribute(row: EventRow, parts: tuple[Any, ...], depth: int) -> UnsetRank | None:
    program, name = row.program, parts[2]
    base = program.evaluator.value(row.file, parts[1])
    if base.only(Kind.OBJECT) and len({atom.const for atom in base}) == 1:
        stores = program.evaluator.stores.get((*base.atoms[0].const, name), [])
        if len(stores) != 1 or any(True for _ in _other_stores(program, row.file, name)):
            return None
        store = program.event_row(*stores[0])
        return unset_rank(store, store.payload[2], (), depth + 1)
    if not base.only(Kind.NAMESPACE) or not _are_options(row, parts[1], depth + 1):
        return None
    if _may_be_filled_in(program, row.file, name) or _is_assigned(row, name):
        return None
    declared = _declared(program, row.file, name)
    every = [_default_of(one, depth) for one in declared]
    return UnsetRank("LOCAL_RANK", declared[0], True) if every and all(every) else None


def _are_options(row: EventRow, term: int, depth: int) -> bool:
    """Return whether a term is what a parser returned, on each way here, and no test on these ways keeps the -1 out."""
    if term < 0 or depth > _DEEPEST or _keeps_out(row, ()):
        return False
    parts = row.terms[term]
    if parts[0] in ("c", "x"):
        return row.program.evaluator.value(row.file, term).only(Kind.NAMESPACE)
    if parts[0] in ("p", "v"):
        given = _assigned(row, parts)
        return bool(given) and all(_are_options(one, inner, depth + 1) for one, inner in given)
    if parts[0] == "a":
        owner = row.program.evaluator.value(row.file, parts[1])
        stores = (
            row.program.evaluator.stores.get((*owner.atoms[0].const, parts[2]), []) if owner.only(Kind.OBJECT) else []
        )
        if len(stores) == 1:
            store = row.program.event_row(*stores[0])
            return _are_options(store, store.payload[2], depth + 1)
    return False


def _declared(program: Program, file: int, name: str) -> list[SourceCall]:
    files = call_paths.related(program, file)
    return [SourceCall(program, *one) for one in program.evaluator.options.get(name, ()) if one[0] in files]


def _default_of(option: SourceCall, depth: int) -> bool:
    """Return whether the default of an option is -1, or an unset variable's."""
    default = option.argument_term(None, "default")
    if default < 0:
        return False
    return option.term_value(default).constant in (-1, "-1") or unset_rank(option, default, (), depth + 1) is not None


def _other_stores(program: Program, file: int, name: str) -> Iterator[EventRow]:
    """Yield what sets an attribute so called of an object, in all files that may run together, but for ``self``."""
    for store in program.rows("attribute", call_paths.related(program, file)):
        base, attribute, _ = store.payload[:3]
        if attribute == name and last_name(store.terms, base) not in ("self", "cls"):
            yield store


def _is_assigned(row: EventRow, name: str) -> bool:
    """Return whether an option may have got another value: by any assignment but one for a case that is independent."""
    stores = [store for store in _other_stores(row.program, row.file, name) if not _made_of_itself(store, name)]
    if not stores:
        return False
    tests = [node for _, node in stores[0].blocks if node[1] not in ("with", "try")]
    independent = (
        len(stores) == 1
        and (stores[0].file, stores[0].scope) == (row.file, row.scope)
        and len(tests) == 1
        and tests[0][1] == "if"
        and not _OF_LAUNCHERS.search(row.term_text(tests[0][2]))
    )
    return not independent


def _made_of_itself(store: EventRow, name: str) -> bool:
    """Return whether an option is set to what is made of itself, as in ``args.local_rank = int(args.local_rank)``."""
    value = store.terms[store.payload[2]]
    if value[0] == "c" and len(value[2]) == 1 and last_name(store.terms, value[1]) in _NUMBERS:
        value = store.terms[value[2][0]]
    return bool(value[0] == "a" and value[2] == name)


@cached
def _may_be_filled_in(program: Program, file: int, name: str) -> bool:
    """Return whether something sets options by names that can't be seen, or is given all of them and can't be seen."""
    files = call_paths.related(program, file)
    if name == "local_rank" and any(call.file in files for call in program.calls_to(*_FILLED_BY_DEEPSPEED)):
        return True
    for call in program.calls_named("setattr", "set_defaults", "update", "__setattr__", files=files):
        if call.method == "setattr":
            if call.constant(1, default=name) in (name, NoConstant):
                return True
        elif call.method == "set_defaults":
            if call.has_star or name in call.keywords:
                return True
        elif "__dict__" in call.receiver_text or "vars(" in call.receiver_text:
            return True
    for call in program.calls_in(files):
        if (
            _SETS_UP.search(call.method)
            and not program.functions(call)
            and not any(target.startswith(("torch.", "deepspeed.")) for target in call.targets)
            and any(call.term_value(term).only(Kind.NAMESPACE) for term in call.argument_terms)
        ):
            return True
    return False


# conditions


def _keeps_out(row: EventRow, tests: Iterable[tuple[int, bool]]) -> bool:
    """Return whether a condition around a row, an assertion before it, or one of these tests keeps the -1 away."""
    for term, polarity in (*conditions(row), *tests):
        answer = holds_for_negative(row.program, row.file, term)
        if answer is not None and answer != polarity:
            return True
    return False


def holds_for_negative(program: Program, file: int, term: int, depth: int = 0) -> bool | None:
    """Return what a test returns where the local rank is the -1 of no launcher; None where that is not known."""
    if term < 0 or depth > 8:
        return None
    terms = program.terms[file]
    parts = terms[term]
    kind = parts[0]
    if kind == "u" and parts[1] == "not":
        answer = holds_for_negative(program, file, parts[2], depth + 1)
        return None if answer is None else not answer
    if kind in ("and", "or"):
        answers = [holds_for_negative(program, file, part, depth + 1) for part in parts[1]]
        decided = bool(kind == "or")
        if decided in answers:
            return decided
        return None if None in answers else not decided
    if kind == "=":
        for left, right, operator in (
            (parts[2], parts[3], parts[1]),
            (parts[3], parts[2], _MIRRORED.get(parts[1], "")),
        ):
            value = program.evaluator.value(file, left)
            constant = program.evaluator.value(file, right).constant
            if value.rank is None and not value.has(Kind.ENV_TEXT):
                continue
            if type(constant) is int and operator in _COMPARED:
                return bool(_COMPARED[operator](-1, constant))
            if operator in ("in", "not in"):
                numbers = [item.constant for atom in program.evaluator.value(file, right) for item in atom.items]
                if numbers and all(type(number) is int for number in numbers):
                    return bool((-1 in numbers) == (operator == "in"))
    who = program.evaluator.test(file, term)
    if who.who == Who.DISTRIBUTED:
        return False
    if who.who == Who.SINGLE:
        return True
    if kind == "v":
        bound = program.bound(file, parts)
        return holds_for_negative(program, file, bound[0], depth + 1) if len(bound) == 1 else None
    if kind == "a":
        answers = [
            holds_for_negative(program, row.file, row.payload[2], depth + 1)
            for row in program.rows("attribute", (file,))
            if row.payload[1] == parts[2]
        ]
        if answers and all(answer == answers[0] for answer in answers):
            return answers[0]
    return None


_MIRRORED = {"==": "==", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_COMPARED = {
    "==": lambda one, other: one == other,
    "!=": lambda one, other: one != other,
    "<": lambda one, other: one < other,
    ">": lambda one, other: one > other,
    "<=": lambda one, other: one <= other,
    ">=": lambda one, other: one >= other,
}
