"""Gradients that are averaged wrongly: for one rank only, twice, after they are clipped, or not at all (``no_sync``).

Which ranks make a step at all is judged in :mod:`.training_steps`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from distcheck import rules
from distcheck.core.model import Finding
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe

from .collective_outputs import copy_of
from .collective_sequences import partial_guards
from .models import calls_in, is_backward, model_of_parameters, wraps
from .program import EventRow, Program, SourceCall
from .term_queries import by_rank, parts, payload_terms
from .values import Kind
from .vocabulary import COLLECTIVES, D, word_set

#: Models whose gradients are averaged by the backward pass.
_AVERAGING = ("ddp", "fsdp", "fsdp2")
#: Losses that are a mean over the batch unless ``reduction`` is given.
_MEANS = lazy(r"^torch\.nn\.(functional\.)?(\w+_loss|cross_entropy|binary_cross_entropy(_with_logits)?|\w+Loss)$")
_REDUCES = (D + "all_reduce", D + "all_reduce_coalesced", D + "reduce_scatter_tensor", D + "reduce_scatter_single")


@probe(rules.DC758)
def gradients_are_averaged_once(program: Program) -> Iterator[Finding]:
    """Gradients reach all ranks, and are averaged once, before they are clipped."""
    yield from _reduced_to_one(program)
    yield from _scaled_twice(program)
    yield from _clipped_before(program)
    yield from _hooks_without_reduction(program)


def _reduced_to_one(program: Program) -> Iterator[Finding]:
    """``dist.reduce`` of gradients, though all ranks step."""
    for call in program.calls_to(D + "reduce"):
        if not is_gradient(program, call.file, call.argument_term(0, "tensor")) or partial_guards(call):
            continue
        if any(
            _broadcasts_parameters(program, other) and _is_repeated(other)
            for other in program.calls_to(D + "broadcast")
        ):
            continue
        steps = [
            step for step in program.calls_named("step", files=set(program.component(call.file))) if is_optimizer(step)
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


def is_gradient(program: Program, file: int, term: int) -> bool:
    """Return whether a tensor is the gradient of a parameter."""
    terms = program.terms[file]
    if term >= 0 and terms[term][0] == "e":
        term = terms[term][1]
    if term >= 0 and terms[term][0] == "*":
        term = terms[term][1]
    while term >= 0 and terms[term][0] == "a" and terms[term][2] == "data":
        term = terms[term][1]
    return term >= 0 and terms[term][0] == "a" and terms[term][2] == "grad"


def is_optimizer(call: SourceCall) -> bool:
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
        scaled = scaling_of(program, call.file, call.receiver_term)
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
        if operator == "*" and not is_mean(program, call.file, loss):
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


def scaling_of(program: Program, file: int, term: int) -> tuple[str, int] | None:
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


def is_mean(program: Program, file: int, term: int) -> bool:
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
        given = call.argument_term(0, "parameters")
        model = model_of_parameters(program, call.file, given)
        if model < 0 and call.terms[given][0] in ("l", "t") and not wraps(program, *_AVERAGING):
            model = given
        if model < 0 or program.evaluator.value(call.file, model).has(Kind.WRAPPED):
            continue
        for row in rows:
            if row.number <= call.number or program.excludes(call, row):
                continue
            if is_optimizer(row) and row.method == "step":
                break
            reduced = reduction_of(program, row)
            if reduced is None or (model == given and not _is_of_one(reduced, call, given)):
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


def _is_of_one(reduced: SourceCall, call: SourceCall, listed: int) -> bool:
    """Return whether the gradient of one of some parameters is reduced."""
    term = call.terms[reduced.argument_term(0, "tensor")]
    return reduced.file == call.file and term[0] == "a" and term[1] in call.terms[listed][1]


def reduction_of(program: Program, call: SourceCall) -> SourceCall | None:
    """Return the reduction of gradients that a call is, or that a function of the project makes."""
    if call.is_to(*_REDUCES):
        return call if is_gradient(program, call.file, call.argument_term(0, "tensor")) else None
    for function in program.functions(call)[:1]:
        for row in calls_in(program, function):
            if row.is_to(*_REDUCES) and is_gradient(program, row.file, row.argument_term(0, "tensor")):
                return row
    return None


def _hooks_without_reduction(program: Program) -> Iterator[Finding]:
    """A communication hook of DDP that gives back what it got, or what it made before the reduction."""
    for call in program.calls_named("register_comm_hook"):
        hook = call.argument(1, "hook")
        if hook is None or len(hook.atoms) != 1 or not call.receiver.wrapped("ddp"):
            continue
        atom = hook.atoms[0]
        if atom.kind != Kind.FUNCTION or not atom.traced or not _is_all_known(program, atom.const):
            continue
        reductions = [row for row in calls_in(program, atom.const) if row.is_to(*_HOOK_REDUCES)]
        name = program.scope(atom.const).name
        if reductions and not _gives_early(program, atom.const, reductions):
            continue
        files = program.component(call.file)
        if not reductions and any(row.loops and row.file in files for row in program.calls_to(*COLLECTIVES)):
            continue  # the weights may be averaged now and then
        why = "makes no collective" if not reductions else "returns a future of the gradients of this rank"
        yield call.found(
            rules.DC758,
            f"the communication hook {name}() {why}, so each rank steps with its own gradients",
            fix="return the future of dist.all_reduce(…, async_op=True), and divide by the number of ranks",
            severity=call.milder_in_tests(rules.DC758),
            basis=(atom,),
            hook=f"{program.place(atom.const[0], program.scope(atom.const).line)}: {name}()",
        )


def _gives_early(program: Program, function: tuple[int, int], reductions: list[SourceCall]) -> bool:
    """Return whether copies are reduced, and what comes after the reduction does not read its result."""
    tensors = [(row, row.argument_term(0, "tensor")) for row in reductions]
    if any(term < 0 or copy_of(program, row, term) is None for row, term in tensors):
        return False
    after = [call.argument(0) for call in calls_in(program, function) if call.method == "then"]
    if len(after) != 1 or after[0] is None:
        return False
    return all(atom.kind == Kind.FUNCTION and not _reads_parameter(program, atom.const) for atom in after[0])


def _reads_parameter(program: Program, function: tuple[int, int]) -> bool:
    file, scope = function
    names = {name for name, _, _ in program.scope(function).parameters}
    terms = program.terms[file]
    return any(
        terms[number][:2] == ("p", scope) and terms[number][2] in names
        for row in program.rows_of(file, scope)
        for root in payload_terms(row)
        if root >= 0
        for number in parts(program, file, root)
    )


_HOOK_REDUCES = (*_REDUCES, D + "all_gather", D + "all_gather_into_tensor", D + "broadcast", D + "reduce")


_KNOWN_TO_HOOKS = tuple(
    f"{one}." for one in (*_HOOK_REDUCES, D + "get_world_size", D + "get_rank", D + "is_initialized")
)


def _is_all_known(program: Program, function: tuple[int, int]) -> bool:
    """Return whether all that a function calls is torch's own, and no hook that torch offers."""
    for row in calls_in(program, function):
        targets = row.targets
        if any(one.startswith(D) and not f"{one}.".startswith(_KNOWN_TO_HOOKS) for one in targets):
            return False
        if targets and all(one.startswith("torch.") and "hook" not in one for one in targets):
            continue
        if row.receiver_term >= 0 and row.callee.has(Kind.METHOD, Kind.UNKNOWN) and row.method in _OF_BUCKETS:
            continue
        return False
    return True


_OF_BUCKETS = word_set(
    "buffer set_result gradients parameters index is_last clone to half float bfloat16 div_ mul_ clamp_ div mul copy_ "
    "clip_ clamp norm get_future value wait then fut"
)


# DC759


@probe(rules.DC759)
def accumulation_ends_with_averaging(program: Program) -> Iterator[Finding]:
    """The backward pass before an optimizer step averages the gradients on all ranks."""
    known = wraps(program, "ddp", "fsdp")
    if not known:
        return
    yield from _set_after_the_forward_pass(program)
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
            found = found or _shifted(program, call, context, rows)
            found = found or _outside(program, call, context, block, rows)
            if found is not None:
                message, fix = found
                yield call.found(rules.DC759, message, fix=fix, severity=call.milder_in_tests(rules.DC759))


_FLAG = "require_backward_grad_sync"


def _set_after_the_forward_pass(program: Program) -> Iterator[Finding]:
    """The flag of DDP that its forward pass reads, set between the forward and the backward pass of an iteration.

    Each backward pass then averages if the iteration before was to: the first one of an accumulation does, and the last
    one does not (torch 2.13, ``DistributedDataParallel._pre_forward``).
    """
    flags = [row for row in program.rows("attribute") if row.payload[1] == _FLAG]
    for row in flags:
        model, _, value = row.payload
        if not row.loops or row.terms[value][0] == "k":
            continue
        loop, turns = row.loops[-1]
        rows = [call for call in calls_in(program, (row.file, row.scope)) if _is_below(call, loop)]
        forward = [call for call in rows if _runs_forward(program, call, model)]
        backward = [call for call in rows if is_backward(call)]
        before = [call for call in forward if call.number < row.number]
        if (
            len(before) != len(forward)
            or not before
            or not any(call.number > row.number for call in backward)
            or any(before[-1].number < call.number < row.number for call in backward)
            or any(_is_below(other, loop) and other.number < before[-1].number for other in _alike(row, flags))
            or _turns_once(program, row, turns)
        ):
            continue
        yield row.found(
            rules.DC759,
            f"`{before[-1].text()}` in {before[-1].line_name} reads this flag before it is set: the last backward pass "
            "of an accumulation averages nothing, so replicas drift apart",
            fix=f"set it before the forward pass in {before[-1].line_name}",
            severity=row.milder_in_tests(rules.DC759),
            forward=before[-1].as_step(),
        )


def _runs_forward(program: Program, call: SourceCall, model: int) -> bool:
    """Return whether a call is the forward pass of a model in DDP, or one of a function that has it."""
    if call.callee.wrapped("ddp"):
        return bool(call.term[1] == model)
    return any(
        inner.callee.wrapped("ddp") for function in program.functions(call)[:1] for inner in calls_in(program, function)
    )


def _alike(row: EventRow, flags: list[EventRow]) -> Iterator[EventRow]:
    return (other for other in flags if other != row and (other.file, other.scope) == (row.file, row.scope))


def _turns_once(program: Program, row: EventRow, turns: int) -> bool:
    """Return whether a loop is ``range(1)``: there is nothing to accumulate."""
    head = row.terms[turns]
    once: bool = head[0] == "c" and len(head[2]) == 1 and program.evaluator.value(row.file, head[2][0]).constant == 1
    return once


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
        if step.method != "step" or not is_optimizer(step) or step.number < call.number or not _is_below(step, loop):
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


class _Period(NamedTuple):
    """A condition that holds in every so many turns: counter and number of turns as terms, and in which of them."""

    counter: int
    turns: int
    turn: int


def _period(program: Program, call: SourceCall, condition: tuple[int, bool]) -> _Period | None:
    """Return when ``(step + 1) % turns == 0`` and the like hold; None for other conditions."""
    terms, (term, truth) = call.terms, condition
    value = 0
    if terms[term][0] == "=":
        truth = truth if terms[term][1] == "==" else not truth
        compared = terms[terms[term][3]]
        if terms[term][1] not in ("==", "!=") or compared[:2] != ("k", "int"):
            return None
        value, term = compared[2], terms[term][2]
    else:
        truth = not truth
    if not truth or terms[term][:2] != ("o", "%"):
        return None
    counter, turns = terms[term][2:4]
    if terms[counter][0] == "o" and terms[counter][1] in ("+", "-") and terms[terms[counter][3]][:2] == ("k", "int"):
        shift = terms[terms[counter][3]][2]
        value += -shift if terms[counter][1] == "+" else shift
        counter = terms[counter][2]
    return _Period(counter, turns, value)


def _shifted(program: Program, call: SourceCall, context: int, rows: list[SourceCall]) -> tuple[str, str] | None:
    """Return what is wrong where gradients are averaged in every so many turns, and used in other ones."""
    condition = _condition(call.terms, call, context)
    if condition is None or not call.loops or not any(is_backward(row) for row in rows):
        return None
    averaged = _period(program, call, (condition[0], not condition[1]))
    loop = call.loops[-1][0]
    every = calls_in(program, (call.file, call.scope))
    outside = any(is_backward(row) and not any(row == one for one in rows) and _is_below(row, loop) for row in every)
    for step in every:
        if averaged is None or outside or step.method != "step" or not is_optimizer(step) or not _is_below(step, loop):
            continue
        under = [
            _plain(step.terms, node[2], node[3]) for number, node in step.blocks if node[1] == "if" and number > loop
        ]
        stepped = [found for one in under if (found := _period(program, step, one)) is not None]
        if len(stepped) != 1 or stepped[0][:2] != averaged[:2] or step.number < call.number:
            return None
        turns = program.evaluator.value(call.file, averaged.turns).constant
        apart = averaged.turn - stepped[0].turn
        if turns == 1 or (apart % turns == 0 if isinstance(turns, int) and turns else abs(apart) != 1):
            return None
        return (
            f"the gradients are averaged in other iterations than those of `{step.text()}` in {step.line_name}, which "
            "uses gradients of this rank only",
            "average in the iteration of the step: use its condition for the iterations without no_sync()",
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
        or any(reduction_of(program, row) for row in every)
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
