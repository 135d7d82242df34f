"""What parameters, terms and conditions hold on one call path."""

from __future__ import annotations

import itertools
from typing import NamedTuple

from . import source_text
from .program import EventRow, Function, Program, SourceCall
from .values import FlowStep, Kind, NoConstant, Value


class CallPath(NamedTuple):
    """One way on which every rank gets to a row."""

    row: EventRow
    #: the calls that lead there, the innermost first
    calls: tuple[SourceCall, ...]
    #: what the processes start with: a module, a spawned function, or a function that makes a group alone
    root: Function
    #: merged where it is not known that every rank starts the root, or where a call was found by its name alone
    certainty: int

    @property
    def steps(self) -> list[FlowStep]:
        """The way from its start, for the flow of a finding."""
        return [
            FlowStep(call.file, call.line, f"every rank calls {call.method or 'it'}() here")
            for call in reversed(self.calls)
        ]


def is_open(call_path: CallPath) -> bool:
    """Whether no condition on a path needs a parameter that is not given on it: ``if trt_file is not None``.

    Nor is a method of it replaced in the class of its object.
    """
    calls = call_path.calls
    for position, row in enumerate((call_path.row, *calls)):
        here = CallPath(row, calls[position:], call_path.root, call_path.certainty)
        for _, (_, kind, term, polarity, _, _) in row.blocks:
            if (kind == "if" or kind.startswith("exit:")) and _fails(here, term, polarity):
                return False
    return not _is_replaced(call_path)


def _is_replaced(call_path: CallPath) -> bool:
    """Return whether an object calls a method of itself on a way, and its class has another one of that name."""
    evaluator = call_path.row.program.evaluator
    entered: list[Function] = []
    for row, call in zip((call_path.row, *call_path.calls), call_path.calls, strict=False):
        entered.append((row.file, row.scope))
        if _is_of_self(call):
            continue
        made = call.callee.only(Kind.CLASS)  # the constructor calls the others
        objects = (call.callee if made else call.receiver).atoms if len(entered) > 1 else ()
        if objects and (made or (call.receiver_term >= 0 and all(atom.kind == Kind.OBJECT for atom in objects))):
            for function in entered:
                name = call_path.row.program.scope(function).name
                found = [evaluator.method(atom.const, name) for atom in objects]
                if None not in found and function not in found:
                    return True
        entered = []
    return False


def _is_of_self(call: SourceCall) -> bool:
    """Return whether a call in a method is of a method of its own object."""
    parameters = call.function.parameters
    return (
        call.program.evaluator.owner_of(call.file, call.scope) >= 0
        and call.receiver_term >= 0
        and bool(parameters)
        and call.terms[call.receiver_term] == ("p", call.scope, parameters[0][0])
    )


def _fails(call_path: CallPath, term: int, polarity: bool) -> bool:
    """Return whether a condition is never fulfilled by what a parameter is given on this way."""
    row = call_path.row
    parts = row.terms[term]
    if parts[0] == "and" and polarity:
        return any(_fails(call_path, part, True) for part in parts[1])
    if parts[0] == "or" and not polarity:
        return any(_fails(call_path, part, False) for part in parts[1])
    if parts[0] == "u" and parts[1] == "not":
        return _fails(call_path, parts[2], not polarity)
    tested = term
    if parts[0] == "=" and parts[1] in ("is", "is not") and row.terms[parts[3]] == ("k", "none", None):
        tested, polarity = parts[2], (parts[1] == "is not") == polarity
    elif parts[0] == "=" and parts[1] == "==" and row.terms[parts[2]][0] in ("p", "a"):
        kept = _kept_on(call_path, parts[2])
        if row.terms[parts[2]][0] == "p":
            kept = value_on(call_path, parts[2]) if polarity else None
        given, wanted = None if kept is None else kept.constant, row.term_value(parts[3]).constant
        known = kept is not None and NoConstant not in (given, wanted)
        return bool(call_path.calls) and known and (given != wanted) is polarity
    if row.terms[tested][0] == "a":
        kept = _kept_on(call_path, tested)
        constant = NoConstant if kept is None else kept.constant
        return (constant is None or constant is False) if polarity else constant is True
    if row.terms[tested][0] != "p" or row.terms[tested][1] != row.scope:
        return False
    value = value_on(call_path, tested)
    if not polarity:
        # what the call switches on: `train` in the arm for `not train`
        return bool(call_path.calls) and value.constant is True
    if not call_path.calls:
        # nothing is seen to call it: what is off by default may be on where there is one process only
        default = next((given for name, given, _ in row.function.parameters if name == row.terms[tested][2]), -1)
        return default >= 0 and row.term_value(default).constant in (None, False)
    return value.constant is None or value.constant is False or value.constant == ""


def term_on(
    call_path: CallPath, row: EventRow, term: int, calls: tuple[SourceCall, ...] | None = None
) -> tuple[EventRow, int, tuple[SourceCall, ...]]:
    """What a term that is a parameter was given on this way: the row of the call that gave it, and the term there."""
    program = row.program
    calls = call_path.calls if calls is None else calls
    while calls and term >= 0:
        parts = row.terms[term]
        if parts[0] != "p" or parts[1] != row.scope:
            break
        call = calls[0]
        passed = passed_term(program, call, (row.file, row.scope), parts[2])
        if passed is None:
            break
        if passed[0] != call.file or passed[1] < 0:
            break
        row, term, calls = call, passed[1], calls[1:]
    return row, term, calls


def value_on(call_path: CallPath, term: int) -> Value:
    """Return what a term of the way's row holds when it is reached on this way."""
    row, found, _ = term_on(call_path, call_path.row, term)
    if (row, found) == (call_path.row, term):
        parts = row.terms[term] if term >= 0 else ("-",)
        if parts[0] == "p" and call_path.calls:
            default = next((given for name, given, _ in row.function.parameters if name == parts[2]), -1)
            passed = passed_term(row.program, call_path.calls[0], (row.file, row.scope), parts[2])
            if passed is None and default >= 0:
                return row.term_value(default)
    return row.term_value(found)


def _kept_on(call_path: CallPath, term: int) -> Value | None:
    """Return what the constructor on this way was given for an attribute of its object: ``self.mode = mode``.

    None where the attribute is no parameter that it keeps, or gets another value elsewhere.
    """
    row = call_path.row
    program, evaluator = row.program, row.program.evaluator
    _, base, name = row.terms[term]
    owner = evaluator.owner_of(row.file, row.scope)
    init = None if owner < 0 else evaluator.method((row.file, owner), "__init__")
    stores = evaluator.stores.get((row.file, owner, name), ())
    if init is None or len(stores) != 1 or any(attribute == name for _, attribute in evaluator.outside):
        return None
    store = program.event_row(*stores[0])
    kept = store.terms[store.payload[2]]
    own = row.terms[base]
    if (store.file, store.scope) != init or store.block > 0 or kept[0] != "p":
        return None
    if own[0] != "p" or own[2] != source_text.first_parameter(row.function):
        return None
    rows = (row, *call_path.calls)
    made = next((call for one, call in itertools.pairwise(rows) if (one.file, one.scope) == init), None)
    call = made if isinstance(made, SourceCall) else _constructor_of(call_path, (row.file, owner))
    if call is None:
        return None
    passed = passed_term(program, call, init, kept[2])
    if passed is None:
        default = next((given for given_name, given, _ in store.function.parameters if given_name == kept[2]), -1)
        return None if default < 0 or call.has_star else store.term_value(default)
    return call.term_value(passed[1]) if passed[0] == call.file else None


def _constructor_of(call_path: CallPath, owner: tuple[int, int]) -> SourceCall | None:
    """Return the call that made the object whose method a way enters, if it is one of this class and no other."""
    for call in call_path.calls:
        atoms = call.receiver.atoms
        if len(atoms) == 1 and atoms[0].kind == Kind.OBJECT and atoms[0].const == owner and atoms[0].call is not None:
            return call.program.call_of(atoms[0])
    return None


def passed_term(program: Program, call: SourceCall, function: Function, name: str) -> tuple[int, int] | None:
    """Return the term that a call gives for a parameter, with its file; None where it gives none or can't be seen."""
    scope = program.scope(function)
    own = [parameter for parameter, _, star in scope.parameters if not star]
    for keyword, value in call.term[3]:
        if keyword == name:
            return call.file, value
    if name not in own:
        return None
    site = next(
        (
            site
            for site in program.evaluator.callers.get(function, ())
            if (site.file, site.event) == (call.file, call.number)
        ),
        None,
    )
    if site is None or site.kind != "call":
        return None
    position = own.index(name) - site.offset
    return (call.file, call.term[2][position]) if 0 <= position < len(call.term[2]) else None


def owned_by_a_framework(call_path: CallPath) -> bool:
    """Return whether a framework owns the group, the loop or the guards in the row's file or where the way starts."""
    program = call_path.row.program
    files = {call_path.root[0], *(row.file for row in (call_path.row, *call_path.calls))}
    return any(program.framework(file) or program.imports_from(file, "ray") for file in files)


def in_tests(call_path: CallPath) -> bool:
    """Return whether the way begins or ends in a test."""
    program = call_path.row.program
    return program.is_test(call_path.row.file) or program.is_test(call_path.root[0])
