"""Gradients that are averaged wrongly: for one rank only, twice, after they are clipped, or not at all (``no_sync``).

Which ranks make a step at all is judged in :mod:`.training_steps`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from distcheck import rules
from distcheck.core.model import Finding
from distcheck.core.registry import probe

from .collective_sequences import partial_guards
from .models import calls_in, is_backward, model_of_parameters, wraps
from .program import EventRow, Program, SourceCall
from .term_queries import by_rank, parts
from .values import Kind
from .vocabulary import COLLECTIVES, D

#: Models whose gradients are averaged by the backward pass.
_AVERAGING = ("ddp", "fsdp", "fsdp2")
#: Losses that are a mean over the batch unless ``reduction`` is given.
_MEANS = re.compile(r"^torch\.nn\.(functional\.)?(\w+_loss|cross_entropy|binary_cross_entropy(_with_logits)?|\w+Loss)$")
_REDUCES = (D + "all_reduce", D + "all_reduce_coalesced", D + "reduce_scatter_tensor", D + "reduce_scatter_single")


@probe(rules.DC758)
def gradients_are_averaged_once(program: Program) -> Iterator[Finding]:
    """Gradients reach all ranks, and are averaged once, before they are clipped."""
    yield from _reduced_to_one(program)
    yield from _scaled_twice(program)
    yield from _clipped_before(program)


def _reduced_to_one(program: Program) -> Iterator[Finding]:
    """``dist.reduce`` of gradients, though all ranks step."""
    for call in program.calls_to(D + "reduce"):
        if not _is_gradient(program, call.file, call.argument_term(0, "tensor")) or partial_guards(call):
            continue
        if any(
            _broadcasts_parameters(program, other) and _is_repeated(other)
            for other in program.calls_to(D + "broadcast")
        ):
            continue
        steps = [
            step for step in program.calls_named("step", files=set(program.component(call.file))) if _is_optimizer(step)
        ]
        if not steps or any(partial_guards(step) for step in steps):
            continue
        yield call.found(
            rules.DC758,
            f"`{call.text()}` gives the sum to one rank only, and the others step with their own gradients in "
            f"{steps[0].line_name}",
            fix="use dist.all_reduce: all ranks need the same gradients",
            severity=call.milder_in_tests(rules.DC758),
            step=steps[0].as_step(),
        )


def _is_gradient(program: Program, file: int, term: int) -> bool:
    """Return whether a tensor is the gradient of a parameter."""
    terms = program.terms[file]
    if term >= 0 and terms[term][0] == "e":
        term = terms[term][1]
    if term >= 0 and terms[term][0] == "*":
        term = terms[term][1]
    while term >= 0 and terms[term][0] == "a" and terms[term][2] == "data":
        term = terms[term][1]
    return term >= 0 and terms[term][0] == "a" and terms[term][2] == "grad"


def _is_optimizer(call: SourceCall) -> bool:
    """Return whether a call steps an optimizer."""
    return any(
        atom.kind == Kind.RESULT
        and str(atom.const).startswith("torch.optim.")
        and "lr_scheduler" not in str(atom.const)
        for atom in call.receiver
    )


def _broadcasts_parameters(program: Program, call: SourceCall) -> bool:
    return model_of_parameters(program, call.file, call.argument_term(0, "tensor")) >= 0


def _is_repeated(call: SourceCall) -> bool:
    """Return whether a broadcast of parameters is made in each step, and not only at the start."""
    return len(call.loops) > 1 or any(caller.loops for caller in call.program.callers((call.file, call.scope)))


def _scaled_twice(program: Program) -> Iterator[Finding]:
    """A loss that is scaled by the world size, though DDP averages gradients."""
    if not wraps(program, *_AVERAGING) or list(program.calls_named("register_comm_hook", "set_gradient_divide_factor")):
        return
    for call in program.calls_named("backward"):
        if call.receiver_term < 0 or not is_backward(call):
            continue
        scaled = _scaling(program, call.file, call.receiver_term)
        if scaled is None:
            continue
        operator, loss = scaled
        inner = list(parts(program, call.file, loss))
        made = [
            SourceCall(program, call.file, call.terms[number][5]) for number in inner if call.terms[number][0] == "c"
        ]
        wrapped = [one for one in made if one.callee.wrapped(*_AVERAGING)]
        if not wrapped or any(_communicates(program, one) for one in made):
            continue
        if operator == "*" and not _is_mean(program, call.file, loss):
            continue
        how = "smaller" if operator == "/" else "larger"
        yield call.found(
            rules.DC758,
            f"the loss is scaled by the world size before `{call.text()}`, but the wrapper averages the gradients: "
            f"they are {how} by that factor",
            fix="call backward on the loss of this rank, without the factor, and scale only the value that is shown",
            severity=call.milder_in_tests(rules.DC758),
            forward=wrapped[0].as_step(),
        )


def _scaling(program: Program, file: int, term: int) -> tuple[str, int] | None:
    """Return how a loss is scaled by the number of ranks alone, and what is scaled."""
    operation = program.terms[file][term]
    if operation[0] != "o" or operation[1] not in ("/", "*"):
        return None
    left, right = (program.evaluator.value(file, side) for side in operation[2:4])
    if right.only(Kind.WORLD_SIZE):
        return operation[1], operation[2]
    return ("*", operation[3]) if operation[1] == "*" and left.only(Kind.WORLD_SIZE) else None


def _communicates(program: Program, call: SourceCall) -> bool:
    """Return whether a call may bring values of other ranks into the loss."""
    if any(target in COLLECTIVES for target in call.targets):
        return True
    return re.search(r"gather|all_?reduce|reduce_|average_|sync_", call.method, re.IGNORECASE) is not None


def _is_mean(program: Program, file: int, term: int) -> bool:
    """Return whether a loss is a mean over the batch of this rank for sure."""
    operation = program.terms[file][term]
    if operation[0] != "c":
        return False
    call = SourceCall(program, file, operation[5])
    if call.gives(None, "reduction") or call.has_star:
        return False
    if call.is_to("torch.nn.functional.cross_entropy") or any(_MEANS.match(target) for target in call.targets):
        return True
    criterion = next((atom for atom in call.callee if atom.kind == Kind.RESULT and _MEANS.match(str(atom.const))), None)
    made = program.call_of(criterion) if criterion is not None else None
    if made is not None:
        return not made.gives(None, "reduction")
    return call.method == "mean" and not call.positional


def _clipped_before(program: Program) -> Iterator[Finding]:
    """``clip_grad_norm_`` between the backward pass and a reduction of the same gradients by hand."""
    for call in program.calls_named("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_"):
        rows = calls_in(program, (call.file, call.scope))
        if not any(is_backward(row) and row.number < call.number for row in rows):
            continue
        model = model_of_parameters(program, call.file, call.argument_term(0, "parameters"))
        if model < 0 or program.evaluator.value(call.file, model).has(Kind.WRAPPED):
            continue
        for row in rows:
            if row.number <= call.number or program.excludes(call, row):
                continue
            if _is_optimizer(row) and row.method == "step":
                break
            reduced = _reduction(program, row)
            if reduced is None:
                continue
            yield call.found(
                rules.DC758,
                f"`{call.text()}` clips by the norm of this rank's gradients, which are averaged only later, in "
                f"{row.line_name}",
                fix=f"clip after the reduction in {row.line_name}",
                severity=call.milder_in_tests(rules.DC758),
                reduction=reduced.as_step(),
            )
            break


def _reduction(program: Program, call: SourceCall) -> SourceCall | None:
    """Return the reduction of gradients that a call is, or that a function of the project makes."""
    if call.is_to(*_REDUCES):
        return call if _is_gradient(program, call.file, call.argument_term(0, "tensor")) else None
    for function in program.functions(call)[:1]:
        for row in calls_in(program, function):
            if row.is_to(*_REDUCES) and _is_gradient(program, row.file, row.argument_term(0, "tensor")):
                return row
    return None


# DC759


@probe(rules.DC759)
def accumulation_ends_with_averaging(program: Program) -> Iterator[Finding]:
    """The backward pass before an optimizer step averages the gradients on all ranks."""
    known = wraps(program, "ddp", "fsdp")
    if not known:
        return
    for call in program.calls_named("no_sync"):
        if not call.receiver.wrapped("ddp", "fsdp"):
            continue
        places = [
            (number, node[2])
            for number, node in enumerate(program.blocks[call.file])
            if node[1] == "with" and _opens(call.terms, node[2], call.event[7])
        ]
        for block, context in places:
            rows = [row for row in calls_in(program, (call.file, call.scope)) if _is_below(row, block)]
            found = _by_rank(program, call, context, rows) or _inverted(program, call, context, block, rows)
            found = found or _outside(program, call, context, block, rows)
            if found is not None:
                message, fix = found
                yield call.found(rules.DC759, message, fix=fix, severity=call.milder_in_tests(rules.DC759))


def _is_below(row: EventRow, block: int) -> bool:
    return any(number == block for number, _ in row.blocks)


def _opens(terms: list[tuple[Any, ...]], context: int, call: int) -> bool:
    """Return whether a context is a call, or is it under a test."""
    return context == call or (terms[context][0] == "?" and call in terms[context][2:4])


def _condition(terms: list[tuple[Any, ...]], call: SourceCall, context: int) -> tuple[int, bool] | None:
    """Return under which condition gradients are not averaged: a term, and whether it is true or false then."""
    if terms[context][0] == "?":
        return _plain(terms, terms[context][1], terms[context][2] == call.event[7])
    for _, node in reversed(call.blocks):
        if node[1] == "if":
            return _plain(terms, node[2], node[3])
        if node[1] in ("for", "while"):
            break
    return None


def _plain(terms: list[tuple[Any, ...]], term: int, truth: bool) -> tuple[int, bool]:
    """Return a condition without ``not``."""
    while terms[term][0] == "u" and terms[term][1] == "not":
        term, truth = terms[term][2], not truth
    return term, truth


def _by_rank(program: Program, call: SourceCall, context: int, rows: list[SourceCall]) -> tuple[str, str] | None:
    """Return what is wrong where the rank decides whether a step averages."""
    condition = _condition(call.terms, call, context)
    if condition is None or not any(is_backward(row) for row in rows):
        return None
    # not what is read from, nor by which way a rank gets a value: neither makes the value another one
    for number in parts(program, call.file, condition[0], stop=("e", "?")):
        why = by_rank(program, call.file, number)
        if why is not None:
            text = call.term_text(condition[0])
            return (
                f"the rank decides whether `{text}` holds, so some ranks average their gradients and others do not",
                "accumulate the same number of steps on all ranks",
            )
    return None


def _inverted(
    program: Program, call: SourceCall, context: int, block: int, rows: list[SourceCall]
) -> tuple[str, str] | None:
    """Return what is wrong where averaging is off in the very steps that the optimizer makes."""
    condition = _condition(call.terms, call, context)
    if condition is None or not any(is_backward(row) for row in rows):
        return None
    loop = call.loops[-1][0] if call.loops else 0
    for step in calls_in(program, (call.file, call.scope)):
        if step.method != "step" or not _is_optimizer(step) or step.number < call.number or not _is_below(step, loop):
            continue
        under = [
            _plain(step.terms, node[2], node[3]) for number, node in step.blocks if node[1] == "if" and number > loop
        ]
        if condition not in under and not any(_same(call, condition, one) for one in under):
            return None
        between = [
            row
            for row in calls_in(program, (call.file, call.scope))
            if is_backward(row)
            and call.number < row.number < step.number
            and not row.within("no_sync")
            and not _is_below(row, block)
            and not program.excludes(call, row)
        ]
        if between:
            return None
        return (
            f"no_sync() has the condition of `{step.text()}` in {step.line_name}: gradients are not averaged in the "
            "steps that use them",
            "invert the condition: no_sync() belongs to the steps that only accumulate",
        )
    return None


def _same(call: SourceCall, one: tuple[int, bool], other: tuple[int, bool]) -> bool:
    """Return whether two conditions are written alike."""
    return (
        one[1] == other[1] and call.term_text(one[0]) == call.term_text(other[0]) and "…" not in call.term_text(one[0])
    )


def _outside(
    program: Program, call: SourceCall, context: int, block: int, rows: list[SourceCall]
) -> tuple[str, str] | None:
    """Return what is wrong where all forward passes are in ``no_sync`` and the backward pass is not."""
    if call.terms[context][0] == "?":
        return None
    wrapper = call.receiver.wrapped("ddp", "fsdp")
    if wrapper is None:
        return None
    every = calls_in(program, (call.file, call.scope))
    forward = [row for row in every if (found := row.callee.wrapped("ddp", "fsdp")) and found.call == wrapper.call]
    if (
        not forward
        or not all(_is_below(row, block) for row in forward)
        or any(_reduction(program, row) for row in every)
    ):
        return None
    inner = {row.event[7] for row in forward}
    for row in every:
        if not is_backward(row) or row.within("no_sync") or row.number < call.number:
            continue
        if inner.intersection(parts(program, row.file, row.term[1])):
            return (
                f"all forward passes are in no_sync(), so `{row.text()}` in {row.line_name} averages nothing, although "
                "it is outside",
                "put the forward pass and the backward pass of the last step outside of no_sync(), both of them",
            )
    return None
