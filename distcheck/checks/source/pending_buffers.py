"""Tensors that are read or written while an asynchronous collective still works on them.

A handle that is never waited for is judged in :mod:`.async_handles`.
"""

from __future__ import annotations

from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding
from distcheck.core.registry import probe

from .collective_signatures import ALWAYS_ASYNC, ASYNC, MANAGERS, OUTPUT, SETTLES
from .models import calls_in
from .program import EventRow, Program, SourceCall
from .term_queries import parts, payload_terms
from .values import Kind
from .vocabulary import COLLECTIVES, POINT_TO_POINT, D, word_set

#: What reads no values of a tensor.
_ABOUT = word_set(
    "size dim numel element_size nelement data_ptr stride is_contiguous get_device record_stream view view_as reshape "
    "flatten unsqueeze squeeze detach chunk split unbind narrow append extend add put insert __len__ len isinstance id "
    "type zeros_like empty_like ones_like full_like rand_like randn_like numel wait is_completed"
)
_BUILT_IN = frozenset(["float", "int", "print", "max", "min", "sum", "str", "bool", "abs"])


@probe(rules.DC717)
def buffer_is_left_alone_until_wait(program: Program) -> Iterator[Finding]:
    """Between an asynchronous collective and its wait(), no code reads or writes the tensor."""
    for call in program.calls_to(*ASYNC, *ALWAYS_ASYNC):
        if not call.is_to(*ALWAYS_ASYNC) and call.is_async is not True:
            continue
        if call.within(*MANAGERS):
            continue
        buffer = _buffer(program, call)
        if buffer < 0:
            continue
        found = _used_before(program, call, buffer)
        if found is None:
            continue
        use, wait = found
        sends = call.is_to(D + "isend")
        yield use.found(
            rules.DC717,
            f"`{use.text()}` uses the tensor of `{call.text()}` in "
            f"{call.line_name} before `{wait.text()}` in {wait.line_name}: "
            + ("the values that are sent may change" if sends else "it may hold old or new values"),
            fix=f"call `{wait.text()}` before this line",
            severity=use.milder_in_tests(rules.DC717),
            flow=[
                call.as_step(),
                use.as_step(),
                wait.as_step(),
            ],
        )


def _buffer(program: Program, call: SourceCall) -> int:
    """Return the term of the tensor that a collective writes into or sends; -1 where it has no name."""
    target = next((target for target in call.targets if target in OUTPUT), None)
    position = OUTPUT[target] if target is not None else (0, "tensor")
    term = call.argument_term(*position)
    if term < 0 or call.is_to(D + "batch_isend_irecv", D + "barrier"):
        return -1
    return term if call.terms[term][0] in ("c", "p", "v", "a", "?", "|", "o", "x") else -1


def _used_before(program: Program, call: SourceCall, buffer: int) -> tuple[EventRow, SourceCall] | None:
    """Return the first use of the tensor before the wait, and the wait."""
    rows = program.rows_of(call.file, call.scope)
    waits = [
        row
        for row in calls_in(program, (call.file, call.scope))
        if row.method in ("wait", "result") and _is_handle(program, row, call)
    ]
    if len(waits) != 1:
        return None
    wait = waits[0]
    loops = {number for number, _ in wait.loops}
    own = [number for number, _ in call.loops if number not in loops]
    if own and wait.number > call.number:
        # the wait comes after the loop: the next turn works on the same tensor, unless each turn makes its own
        maker = program.terms[call.file][buffer]
        made = SourceCall(program, call.file, maker[5]) if maker[0] == "c" else None
        if made is None or any(number == own[0] for number, _ in made.blocks):
            return None
        first = [row for row in rows if any(number == own[0] for number, _ in row.blocks) and row.number != call.number]
    elif wait.number > call.number:
        first = [row for row in rows if call.number < row.number < wait.number]
    else:
        return None
    around = {number for number, _ in call.blocks}
    for row in first:
        if isinstance(row, SourceCall) and row.method in SETTLES:
            return None
        if program.excludes(call, row) or any(node[1] == "if" and number not in around for number, node in row.blocks):
            continue
        if _touches(program, row, buffer, call):
            return row, wait
    return None


def _is_handle(program: Program, wait: SourceCall, call: SourceCall) -> bool:
    """Return whether a wait is for the handle of a call."""
    pending, seen = [wait.receiver_term] if wait.receiver_term >= 0 else [], set()
    while pending:
        number = pending.pop()
        if number == call.event[7]:
            return True
        term = wait.terms[number]
        if number not in seen and term[0] in ("|", "?"):
            seen.add(number)
            pending.extend(term[-2:])
    return False


def _touches(program: Program, row: EventRow, buffer: int, call: SourceCall) -> bool:
    """Return whether an event reads or writes the values of a tensor."""
    terms = row.terms
    if isinstance(row, SourceCall):
        if row.targets and any(target in COLLECTIVES or target in POINT_TO_POINT for target in row.targets):
            return False
        if row.method in _ABOUT:
            return False
        callee = terms[row.term[1]]
        if callee[0] == "a" and callee[1] == buffer:
            return not (call.is_to(D + "isend") and not row.method.endswith("_"))
        library = any(target.startswith("torch.") for target in row.targets)
        built_in = callee[0] == "v" and callee[2] in _BUILT_IN and not row.callee.has(Kind.FUNCTION)
        if call.is_to(D + "isend"):
            return False
        return (library or built_in) and any(_holds(terms, term, buffer) for term in row.argument_terms)
    if row.kind == "store":
        return bool(row.payload[0] == buffer)
    if row.kind == "bind" and not call.is_to(D + "isend"):
        return any(
            terms[number][0] == "o" and buffer in terms[number][2:4]
            for root in payload_terms(row)
            for number in parts(program, row.file, root, stop=("c",))
        )
    return False


def changes(program: Program, row: EventRow, buffer: int) -> bool:
    """Return whether an event may write into a tensor: in place, as an output, or through a function of the project."""
    terms = row.terms
    if row.kind == "store":
        return _holds(terms, row.payload[0], buffer) or buffer in parts(program, row.file, row.payload[0])
    if not isinstance(row, SourceCall):
        return False
    if row.receiver_term == buffer:
        return row.method.endswith("_")
    if any(name == "out" and term == buffer for name, term in row.term[3]):
        return True
    target = next((target for target in row.targets if target in OUTPUT), None)
    if target is not None or row.is_to(D + "isend", D + "send"):
        return target is not None and row.argument_term(*OUTPUT[target]) == buffer and not row.is_to(D + "isend")
    reads = any(target.startswith("torch.") and not target.startswith(D) for target in row.targets)
    return not reads and buffer in row.argument_terms


def _holds(terms: list[tuple[object, ...]], term: int, buffer: int) -> bool:
    """Return whether an argument is the tensor, or arithmetic with it."""
    if term == buffer:
        return True
    operation = terms[term]
    return operation[0] == "o" and buffer in operation[2:4]
