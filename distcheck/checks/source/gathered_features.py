"""Features that are gathered for a loss by a collective through which no gradient flows."""

from __future__ import annotations

from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding
from distcheck.core.registry import probe

from .collective_signatures import OUTPUT, TENSORS
from .models import FAR, is_backward, without_gradients
from .program import Program, SourceCall
from .source_text import operands
from .term_queries import callee_text
from .values import Atom
from .vocabulary import D, word_set

_GATHERS = (D + "all_gather", D + "all_gather_into_tensor", D + "all_gather_single")
#: Methods whose results carry no gradient.
_CUT = word_set("detach item tolist numpy argmax argmin argsort long int size")


@probe(rules.DC719)
def gathered_features_keep_their_gradient(program: Program) -> Iterator[Finding]:
    """What a wrapped model computes and all_gather brings together is no constant for the backward pass."""
    for call in program.calls_to(*_GATHERS):
        target = next(target for target in call.targets if target in _GATHERS)
        output = call.argument_term(*OUTPUT[target])
        given = call.argument_term(*TENSORS[target][0])
        if output < 0 or given < 0 or without_gradients(program, call) or _is_put_back(program, call, output):
            continue
        found = _trained(program, call, given, output, 0)
        if found is None:
            continue
        wrapper, backward = found
        yield call.found(
            rules.DC719,
            f"no gradient flows through {callee_text(call)}(): for `{backward.text()}` in {backward.line_name} the "
            "gathered features of this rank are constants as well",
            fix="put the own tensor back after the call (gathered[rank] = features), or gather under torch.no_grad() "
            "if the features have to be constants",
            basis=(wrapper,),
            severity=call.milder_in_tests(rules.DC719),
            flow=[*program.flow(wrapper.flow), backward.as_step()],
        )


def _is_put_back(program: Program, call: SourceCall, output: int) -> bool:
    """Return whether an item of the gathered list, or a part of the tensor, is replaced afterwards."""
    for row in program.rows_of(call.file, call.scope):
        if row.kind == "store" and row.number > call.number:
            base = row.terms[row.payload[0]]
            if output in (row.payload[0], base[2] if base[:2] == ("u", "reduced") else -1):
                return True
    return False


def _trained(program: Program, row: SourceCall, given: int, output: int, depth: int) -> tuple[Atom, SourceCall] | None:
    """Return the wrapper whose features are given, and the backward pass that the output goes into.

    Followed to the callers of a function that returns the output.
    """
    wrapper = _features(program, row, given)
    for other in program.rows_of(row.file, row.scope):
        if wrapper is not None and isinstance(other, SourceCall) and is_backward(other) and other.number > row.number:
            sources = (other.term[1], *other.term[2])
            if any(_flows(program, row.file, source, output) for source in sources):
                return wrapper, other
        if other.kind == "return" and depth < FAR and _flows(program, row.file, other.payload[0], output):
            for caller in program.callers((row.file, row.scope))[:6]:
                if without_gradients(program, caller):
                    continue
                passed = _passed(program, caller, (row.file, row.scope), given) if wrapper is None else None
                if passed is not None:
                    found = _trained(program, caller, passed, caller.event[7], depth + 1)
                elif wrapper is not None:
                    found = _ends(program, caller, wrapper, depth + 1)
                else:
                    found = None
                if found is not None:
                    return found
    return None


def _ends(program: Program, row: SourceCall, wrapper: Atom, depth: int) -> tuple[Atom, SourceCall] | None:
    """Return the backward pass that the result of a call goes into."""
    for other in program.rows_of(row.file, row.scope):
        if isinstance(other, SourceCall) and is_backward(other):
            if any(_flows(program, row.file, source, row.event[7]) for source in (other.term[1], *other.term[2])):
                return wrapper, other
        elif other.kind == "return" and depth < FAR and _flows(program, row.file, other.payload[0], row.event[7]):
            for caller in program.callers((row.file, row.scope))[:6]:
                found = None if without_gradients(program, caller) else _ends(program, caller, wrapper, depth + 1)
                if found is not None:
                    return found
    return None


def _features(program: Program, row: SourceCall, given: int) -> Atom | None:
    """Return the wrapper of the forward pass that a tensor comes from, if it carries a gradient."""
    for number in _parts(program, row.file, given):
        term = row.terms[number]
        if term[0] == "c":
            forward = SourceCall(program, row.file, term[5])
            wrapper = forward.callee.wrapped("ddp", "fsdp")
            if wrapper is not None:
                return None if without_gradients(program, forward) else wrapper
    return None


def _passed(program: Program, caller: SourceCall, function: tuple[int, int], given: int) -> int | None:
    """Return the term that a caller gives for the parameter that a tensor comes from."""
    names = [name for name, _, star in program.scope(function).parameters if not star]
    terms = program.terms[function[0]]
    for number in _parts(program, function[0], given):
        term = terms[number]
        if term[0] == "p" and term[1] == function[1] and term[2] in names and term[2] not in ("self", "cls"):
            offset = names[:1] in (["self"], ["cls"])
            passed = caller.argument_term(names.index(term[2]) - offset, term[2])
            if passed >= 0:
                return passed
    return None


def _flows(program: Program, file: int, term: int, output: int) -> bool:
    """Return whether a gradient would flow from a term back into the gathered tensors."""
    return term >= 0 and output in _parts(program, file, term)


def _parts(program: Program, file: int, term: int) -> Iterator[int]:
    """Yield what a tensor is made of, as far as a gradient flows."""
    terms = program.terms[file]
    pending, seen = [term], set[int]()
    while pending:
        number = pending.pop()
        if number < 0 or number in seen:
            continue
        seen.add(number)
        yield number
        operation = terms[number]
        callee = terms[operation[1]] if operation[0] == "c" else operation
        if operation[0] != "c" or callee[0] != "a" or callee[2] not in _CUT:
            pending.extend(operands(operation))
