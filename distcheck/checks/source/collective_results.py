"""What a collective returns: None that is used as a result (DC710), objects that are unpickled (DC616)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from distcheck import rules
from distcheck.core.model import Finding, Severity
from distcheck.core.registry import probe

from .collective_outputs import copy_of, is_name, may_be_temporary, originals
from .collective_signatures import ASYNC, NEVER_A_HANDLE, OUTPUT
from .program import EventRow, Program, SourceCall
from .source_text import last_name
from .term_queries import callee_text, passed_on, users
from .values import Kind
from .vocabulary import D


@probe(rules.DC710)
def result_of_collective_is_used(program: Program) -> Iterator[Finding]:
    """The return value of a synchronous collective is None, and no code computes with it."""
    for call in program.calls_to(*ASYNC, *NEVER_A_HANDLE):
        if call.has_star or call.use == "drop":
            continue
        if not call.is_to(*NEVER_A_HANDLE) and call.is_async is not False:
            continue
        if len(call.callee.atoms) != 1:
            continue  # only one of several functions that may stand here
        how = _used_how(program, call)
        if how is None:
            continue
        name, tensor = callee_text(call), _written(call)
        if "handle" in how:
            text = f"pass async_op=True to {name}() to get a handle, or drop the wait: the call has finished"
        else:
            text = f"call {name}({tensor}, …) on a separate line, then use {tensor}, which holds the result"
        yield call.found(
            rules.DC710,
            f"{name}() puts its result into {tensor} and returns None, which is {how}",
            fix=text,
            severity=call.level_in_tests,
        )


def _written(call: SourceCall) -> str:
    """Return the argument that a collective writes into, as source."""
    for target in call.targets:
        if target in OUTPUT:
            return call.argument_text(*OUTPUT[target]) or "its argument"
    return call.argument_text(0) or "its argument"


def _used_how(program: Program, call: SourceCall) -> str | None:
    """Return how the result of a call is used; None where it is not, or where the code copes with None."""
    use = call.use
    if call.is_to(D + "barrier", D + "monitored_barrier", D + "send") and use not in (
        "attribute",
        "arithmetic",
        "subscript",
    ):
        return None
    used_in = users(program, call.file).get(call.event[7], ())
    if use == "arithmetic":
        return "computed with"
    if use in ("attribute", "callee"):
        return _attribute_read(program, call.file, call.event[7])
    if use == "subscript":
        return "indexed"
    if use == "compare":
        compared = (program.terms[call.file][user] for user in used_in)
        return None if any(term[0] == "=" and term[1] in ("is", "is not") for term in compared) else "compared"
    if use == "test":
        return "tested" if not call.inside("while") else None
    if use == "return":
        return _used_by_callers(program, call)
    name = use.removeprefix("assign:") if use.startswith("assign:") else ""
    if name and name == _written(call):
        return f"assigned to {name}"
    if use == "assign:" and _stored_over_itself(program, call):
        return f"assigned to {_written(call)}"
    if name and _is_bound_again(program, call, name):
        return None
    if name.strip("_") and _is_temporary(program, call) and used_in:
        return f"kept as {name}"
    return _later_use(program, call, name)


def _is_bound_again(program: Program, call: SourceCall, name: str) -> bool:
    """Return whether the name holds another value at each call of its methods: a line under the same conditions has
    assigned it before, in the same turn of a loop.
    """
    rows = [row for row in program.rows_of(call.file, call.scope) if row.number > call.number]
    used = [row for row in rows if isinstance(row, SourceCall) and row.text().startswith(f"{name}.")]
    bound = [row for row in rows if row.kind == "bind" and row.payload[0] == name and row.payload[1] != call.event[7]]
    return bool(used) and all(
        any(one.number < row.number and _conditions(one) <= _conditions(row) for one in bound) for row in used
    )


def _conditions(row: EventRow) -> frozenset[tuple[object, ...]]:
    """Return the conditions around a row as text, and its loops."""
    return frozenset(
        (kind, number) if kind in ("for", "while") else (kind, row.term_text(term), polarity)
        for number, (_, kind, term, polarity, _, _) in row.blocks
    )


def _is_temporary(program: Program, call: SourceCall) -> bool:
    """Return whether the tensor has no name, so that the return value must have been meant."""
    target = next((target for target in call.targets if target in OUTPUT), None)
    if target is None:
        return False
    term = call.argument_term(*OUTPUT[target])
    if term < 0 or not may_be_temporary(program, call, term):
        return False
    source = call.argument_text(*OUTPUT[target])
    copy = None if is_name(source) else copy_of(program, call, term)
    terms = program.terms[call.file]
    return copy is not None and any(terms[root][0] != "k" for base in copy.bases for root in originals(terms, base))


def _attribute_read(program: Program, file: int, term: int) -> str:
    terms = program.terms[file]
    names = [terms[user][2] for user in users(program, file).get(term, ()) if terms[user][0] == "a"]
    if names and names[0] in ("wait", "is_completed", "is_success", "get_future", "result"):
        return f"used as a handle (.{names[0]})"
    return f"read for .{names[0]}" if names else "read for an attribute"


def _stored_over_itself(program: Program, call: SourceCall) -> bool:
    """``self.total = all_reduce(self.total)``, ``sums["loss"] = all_reduce(sums["loss"])``."""
    terms = program.terms[call.file]
    own = call.event[7]
    written = next((call.argument_term(*OUTPUT[target]) for target in call.targets if target in OUTPUT), -1)
    for row in program.rows_of(call.file, call.scope):
        if row.number > call.number:
            if row.kind == "attribute" and row.payload[2] == own:
                return ("a", row.payload[0], row.payload[1]) == terms[written] or _text_before(row) == _written(call)
            if row.kind == "store" and row.payload[2] == own:
                return ("s", row.payload[0], row.payload[1]) == terms[written]
    return False


def _text_before(row: EventRow) -> str:
    """Return the target of an assignment as source."""
    return row.text().partition("=")[0].strip()


def _later_use(program: Program, call: SourceCall, name: str) -> str | None:
    terms = program.terms[call.file]
    same = passed_on(program, call.file, call.event[7])
    tested = {node[2] for node in program.blocks[call.file] if node[1] in ("if", "while")}
    if any(number in tested for number in same):
        return None
    found = None
    prefix = f"kept as {name} and " if name else ""
    for number in same:
        for user in users(program, call.file).get(number, ()):
            term = terms[user]
            if _is_never_computed(program, call, user):
                continue
            if term[0] == "=":
                if term[1] in ("is", "is not"):
                    return None
                found = found or f"{prefix}compared"
            elif term[0] in ("and", "or") or (term[0] == "u" and term[1] == "not"):
                return None
            elif term[0] == "o":
                found = found or f"{prefix}computed with"
            elif term[0] == "a":
                found = found or prefix + _attribute_read(program, call.file, number)
            elif term[0] == "s" and term[1] == number:
                found = found or f"{prefix}indexed"
            elif (term[0] == "e" and term[1] == number) or (term[0] == "*" and term[2] == number):
                found = found or f"{prefix}iterated over"
            elif term[0] == "x":
                found = found or f"{prefix}unpacked"
            elif term[0] == "c" and number != term[1] and _needs_a_value(program, call.file, term):
                found = found or f"{prefix}passed to {last_name(terms, term[1])}()"
    return found


def _is_never_computed(program: Program, call: SourceCall, term: int) -> bool:
    """Return whether a term of the function of a call stands only in arms that no call of the project takes."""
    rows = [row for row in program.rows_of(call.file, call.scope) if term in row.payload]
    return bool(rows) and all(program.is_never_taken(row.file, row.scope, row.block) for row in rows)


def _needs_a_value(program: Program, file: int, term: tuple[Any, ...]) -> bool:
    """Return whether a call fails for None as its argument."""
    for atom in program.evaluator.value(file, term[1]):
        if atom.kind != Kind.NAMED:
            return False
        dotted = str(atom.const)
        if dotted not in ("float", "int", "len", "sum", "list", "tuple", "max", "min", "sorted") and not (
            dotted.startswith(("torch.", "numpy.")) and not dotted.startswith(D)
        ):
            return False
    return True


def _used_by_callers(program: Program, call: SourceCall) -> str | None:
    """A function that returns the return value: whether one of its callers computes with it."""
    function = call.function
    if function.kind != "function" or any(star for _, _, star in function.parameters if star in ("*", "**")):
        return None
    for site in program.evaluator.callers.get((call.file, call.scope), ()):
        if site.weak or site.kind != "call":
            continue
        outer = SourceCall(program, site.file, site.event)
        if outer.use == "arithmetic":
            return f"computed with in {outer.path}, {outer.line_name}"
        if outer.use in ("attribute", "subscript"):
            return f"used at {outer.place}"
    return None


_UNPICKLES = tuple(
    D + name
    for name in [
        "all_gather_object",
        "gather_object",
        "broadcast_object_list",
        "scatter_object_list",
        "recv_object_list",
    ]
)


@probe(rules.DC616)
def object_collective_unpickles(program: Program) -> Iterator[Finding]:
    """Objects from other ranks are read with weights_only, or their ranks are trusted."""
    for call in program.calls_to(*_UNPICKLES):
        if call.has_star or call.constant(None, "weights_only", False) is not False:
            continue
        yield call.found(
            rules.DC616,
            f"{callee_text(call)}() unpickles what other ranks send, and unpickling can run any code",
            fix="pass weights_only=True where the torch in use has it (2.15); numbers go into a tensor",
            severity=Severity.INFO,
        )
