"""Lines that ranks never get to: all of them, or all but one, raise an error before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from distcheck.core.model import Finding, Severity

from . import call_paths
from .certainty import certainty_of
from .partial_names import readings_of_others
from .program import EventRow, Function, Program, SourceCall, cached
from .samplers import refused_loaders
from .term_queries import given_terms
from .values import Certainty, Kind
from .vocabulary import word_set

#: Rules about what a name means, wherever it stands, and about an error that all ranks raise there.
_WHEREVER_IT_STANDS = word_set("DC731 DC801")
#: Rules about what several ranks do, which does not matter if all but one fail before.
_OF_SEVERAL_RANKS = word_set(
    "DC701 DC702 DC705 DC707 DC708 DC720 DC721 DC722 DC723 DC724 DC725 DC730 DC739 DC750 DC753 DC768"
)
#: Rules whose line comes before what is wrong: the last step of their flow is the loop that repeats the order.
_AT_THE_END_OF_THEIR_FLOW = word_set("DC730")
#: Blocks that run in each pass through a function that gets there.
_ALWAYS_RUN = ("with", "for", "while", "finally")
#: Longer chains of calls are not followed.
_MOST_CALLS = 4
_WRAP = "torch.distributed.fsdp.wrap."
#: Functions that FSDP calls for each module: a script gives them to partial(). A call of its own lacks what FSDP gives.
_POLICIES = tuple(_WRAP + name for name in word_set("transformer_auto_wrap_policy size_based_auto_wrap_policy"))
_OF_POLICIES = ("module", "recurse")


class _Failure(NamedTuple):
    """Where ranks raise, and what happens there."""

    row: EventRow
    what: str


def with_failures(program: Program, findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings; one is ``info`` if all ranks, or all but one, raise an error before they get there."""
    numbers = {facts.path: number for number, facts in enumerate(program.index.files)}
    found = []
    for finding in findings:
        file = numbers.get(finding.where.path or "")
        if file is not None and finding.severity > Severity.INFO and finding.code not in _WHEREVER_IT_STANDS:
            failure = _before(program, finding, numbers)
            if failure is not None:
                finding = finding._replace(severity=Severity.INFO, message=f"{finding.message}; {failure.what}")
        found.append(finding)
    return found


def _before(program: Program, finding: Finding, numbers: dict[str, int]) -> _Failure | None:
    """Return what happens before ranks get to the line of a finding, if they never do."""
    place = f"{finding.where.path}:{finding.where.line}"
    flow = finding.evidence.get("flow", ())
    if flow and finding.code in _AT_THE_END_OF_THEIR_FLOW:
        place = flow[-1].split(": ")[0]
    file = numbers.get(place.rpartition(":")[0])
    rows = [] if file is None else _rows_at(program, file, place)
    for others in (False, True)[: 2 if finding.code in _OF_SEVERAL_RANKS else 1]:
        failures = [_failure_before(program, row, others) for row in rows]
        if failures and all(failures):
            return failures[0]
    return None


def _rows_at(program: Program, file: int, place: str) -> list[EventRow]:
    scopes = sorted(program.evaluator.by_scope[file])
    return [row for scope in scopes for row in program.rows_of(file, scope) if row.place == place]


def _failure_before(program: Program, row: EventRow, others: bool, depth: int = _MOST_CALLS) -> _Failure | None:
    """Return the failure because of which a row never runs: in its function, or before each call of that."""
    function = (row.file, row.scope)
    around = {number for number, _ in row.blocks}
    for failure in _failures_in(program, function, others):
        if failure.row.number < row.number and failure.row.line < row.line and _conditions(failure.row) <= around:
            return failure
    if not depth:
        return None
    first = _failure_of_constructor(program, function, others)
    if first is not None:
        return first
    for caller in _users(program, function):
        if caller is None:
            return None
        before = _refused_call(program, caller) or _failure_before(program, caller, others, depth - 1)
        if before is None:
            return None
        first = first or before
    return first


def _failure_of_constructor(program: Program, function: Function, others: bool) -> _Failure | None:
    """Return the failure that always ends the constructor of a method's class, unless that calls the method."""
    owner = program.scope(function).owner
    made = program.evaluator.method((function[0], owner), "__init__") if owner >= 0 else None
    if made is None or function in call_paths.reached_from(program, made):
        return None
    return next((one for one in _failures_in(program, made, others) if not _conditions(one.row)), None)


def _users(program: Program, function: Function) -> Iterator[EventRow | None]:
    """Yield what calls a function or gets it, tests not included; None for what is not known."""
    handed = program.evaluator.handed.get(function, ())
    if function in program.evaluator.escaped and not handed:
        yield None
    for row in (*program.callers(function), *(program.event_row(*one) for one in handed)):
        if not program.is_test(row.file):
            yield row


def _conditions(row: EventRow) -> set[int]:
    return {number for number, node in row.blocks if node[1] not in _ALWAYS_RUN}


def _failures_in(program: Program, function: Function, others: bool) -> list[_Failure]:
    """Return the rows of a function at which all ranks raise, or all but one."""
    return _failures_of_others(program, function) if others else _failures_of_all(program, function)


@cached
def _failures_of_others(program: Program, function: Function) -> list[_Failure]:
    return [
        _Failure(row, f"the other ranks fail before, at {row.place}")
        for row, finding in program.table(readings_of_others)
        if (row.file, row.scope) == function and finding.severity >= Severity.WARNING
    ]


@cached
def _failures_of_all(program: Program, function: Function, depth: int = _MOST_CALLS) -> list[_Failure]:
    refused = {
        (loader.file, loader.number)
        for loader, atom in program.table(refused_loaders)
        if certainty_of(atom) == Certainty.PROVEN and loader.terms[loader.argument_term(2, "shuffle")][0] != "p"
    }
    found = []
    for row in program.rows_of(*function):
        if not isinstance(row, SourceCall):
            continue
        if (row.file, row.number) in refused:
            found.append(_Failure(row, f"every rank fails before, at {row.place}: shuffle=True and a sampler"))
        elif (failure := _refused_call(program, row)) is not None:
            found.append(failure)
        elif depth and len(functions := _entered(program, row)) == 1:
            inside = (one for one in _failures_of_all(program, functions[0], depth - 1) if not _conditions(one.row))
            found.extend(_Failure(row, one.what) for one in inside)
    return found


def _entered(program: Program, call: SourceCall) -> list[Function]:
    """Return the functions that a call runs to their end: not generators, nor what a decorator may change."""
    if not call.callee.only(Kind.FUNCTION, Kind.CLASS):
        return []
    return [
        one for one in program.functions(call) if not program.is_generator(one) and not program.scope(one).decorators
    ]


def _refused_call(program: Program, row: EventRow) -> _Failure | None:
    """Return the failure of a call that lacks an argument, which raises a TypeError before its function starts."""
    name = _lacking(program, row) if isinstance(row, SourceCall) else None
    if name is None:
        return None
    return _Failure(row, f"every rank fails before, at {row.place}: the call lacks the argument {name}")


def _lacking(program: Program, call: SourceCall) -> str | None:
    """Return the parameter without a default that a call does not give, which raises a TypeError."""
    if call.has_star:
        return None
    if call.is_to(*_POLICIES):
        return next((name for place, name in enumerate(_OF_POLICIES) if call.argument_term(place, name) < 0), None)
    if len(call.callee.atoms) != 1 or call.callee.atoms[0].of or call.callee.atoms[0].certainty != Certainty.PROVEN:
        return None
    functions = _entered(program, call)
    if len(functions) != 1 or program.scope(functions[0]).kind != "function":
        return None
    scope = program.scope(functions[0])
    given = given_terms(call, functions[0])
    needed = [name for name, default, star in scope.parameters if default < 0 and star not in ("*", "**")]
    if scope.owner >= 0:
        if call.callee.atoms[0].kind != Kind.CLASS or program.evaluator.outer_bases((functions[0][0], scope.owner)):
            return None
        needed = needed[1:]
    return next((name for name in needed if name not in given), None)
