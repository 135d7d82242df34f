"""Handles of asynchronous collectives that nothing keeps, so that nothing waits for them (DC713)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding, Severity
from distcheck.core.registry import probe

from .collective_backends import backends_of
from .collective_outputs import is_constant_tensor
from .collective_signatures import ALWAYS_ASYNC, ASYNC, MANAGERS, OUTPUT, SETTLES
from .pending_buffers import changes
from .program import Program, SourceCall
from .term_queries import callee_text, parts, payload_terms, users
from .vocabulary import D


@probe(rules.DC713)
def handle_is_kept(program: Program) -> Iterator[Finding]:
    """The handle of an asynchronous collective is kept, so the code can wait for it."""
    for call in program.calls_to(*ASYNC, *ALWAYS_ASYNC):
        if not call.is_to(*ALWAYS_ASYNC) and call.is_async is not True:
            continue
        if not _is_dropped(program, call):
            continue
        if call.within(*MANAGERS) or _settles_later(program, call) or _is_load_only(program, call):
            continue
        if _is_warm_up(program, call) or _is_sent_unchanged(program, call):
            continue
        # gather() writes into its second argument, which only the destination passes
        output = next((OUTPUT[target] for target in call.targets if target in OUTPUT), (0, None))
        tensor = call.argument_text(*output) or call.argument_text(0) or "its tensors"
        many = call.is_to(D + "batch_isend_irecv")
        text = (
            f"for work in {callee_text(call)}({tensor}): work.wait()"
            if many
            else f"work = {call.text()}, and work.wait() before {tensor} is used"
        )
        early = f"{tensor} may be used before it is ready"
        if call.is_to(D + "barrier"):
            early, text = "this rank goes on before the others are there", f"work = {call.text()}, and work.wait()"
        yield call.found(
            rules.DC713,
            f"{callee_text(call)}() returns a handle that is never waited for: {early}",
            fix=text,
            severity=call.level_in_tests or (Severity.INFO if program.is_example(call.file) else None),
        )


def _is_dropped(program: Program, call: SourceCall) -> bool:
    if call.use == "drop":
        return True
    name = call.use.removeprefix("assign:")
    if not call.use.startswith("assign:") or not name.strip("_"):
        return False  # "_ = …" drops it on purpose
    if users(program, call.file).get(call.event[7]):
        return False
    # handles go round loops and into closures under their names, which terms do not show
    function = call.function
    lines = program.lines(call.file)[max(function.line - 1, 0) : function.end_line or None]
    if call.at_module_level:
        lines = program.lines(call.file)
    return len(re.findall(rf"\b{re.escape(name)}\b", "\n".join(lines))) == 1


def _settles_later(program: Program, call: SourceCall) -> bool:
    """Whether the device or the stream is waited for: later in this function, in its loop, or by another method."""
    loops = {number for number, _ in call.loops}
    owner = program.evaluator.owner_of(call.file, call.scope)
    for other in program.calls_named(*SETTLES):
        if other.file != call.file:
            continue
        if other.scope == call.scope:
            if other.number > call.number or loops.intersection(number for number, _ in other.loops):
                return True
        elif owner >= 0 and program.evaluator.owner_of(other.file, other.scope) == owner:
            return True
    return False


def _is_warm_up(program: Program, call: SourceCall) -> bool:
    """Return whether no code can use the tensors of a batch: each operation gets one that has no name."""
    if not call.is_to(D + "batch_isend_irecv"):
        return False
    value = call.argument(0, "p2p_op_list")
    items = value.atoms[0].items if value is not None and len(value.atoms) == 1 else ()
    made = [program.call_of(atom) for item in items for atom in item]
    tensors = [one.argument_term(1, "tensor") if one is not None else -1 for one in made]
    return bool(tensors) and all(
        term >= 0 and one is not None and one.terms[term][0] == "c" for one, term in zip(made, tensors, strict=True)
    )


def _is_sent_unchanged(program: Program, call: SourceCall) -> bool:
    """Return whether a tensor that a backend of GPUs sends is only read afterwards: the backend keeps it until then.

    Source: the documentation of ``isend``, which forbids only to modify the tensor, and ProcessGroupNCCL.hpp of
    torch 2.13 (``stashed_for_allocator_safety_``; ``recordStream`` before).
    """
    backends = backends_of(program, call.file)
    if not call.is_to(D + "isend") or backends.isdisjoint(_OF_GPUS) or backends - _OF_GPUS - {None}:
        return False
    buffer = call.argument_term(0, "tensor")
    loops = {number for number, _ in call.loops}
    return buffer >= 0 and not any(
        changes(program, row, buffer)
        for row in program.rows_of(call.file, call.scope)
        if row.number > call.number or loops.intersection(number for number, _ in row.loops)
    )


#: Backends whose calls are enqueued on a stream.
_OF_GPUS = frozenset(["nccl", "hccl", "rccl"])


def _is_load_only(program: Program, call: SourceCall) -> bool:
    """Whether the tensor was made for this and nothing but collectives ever gets it: traffic for a measurement."""
    terms = program.terms[call.file]
    target = next((target for target in call.targets if target in OUTPUT), None)
    if target is None:
        return False
    number = call.argument_term(*OUTPUT[target])
    if number >= 0 and terms[number][0] == "*":
        number = terms[number][1]
    if number < 0 or terms[number][0] != "c" or not is_constant_tensor(program, call.file, number):
        return False
    written = call.argument_term(*OUTPUT[target])
    for row in program.rows_of(call.file, call.scope):
        if row.kind not in ("call", "return", "attribute", "store", "yield", "compare"):
            continue
        if isinstance(row, SourceCall) and (row.event[7] == number or any(name.startswith(D) for name in row.targets)):
            continue
        if any(written in parts(program, call.file, root) for root in payload_terms(row) if root >= 0):
            return False
    return True
