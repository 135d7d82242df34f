"""Steps in the training of a replicated model that only some ranks make: backward, step, load, moving average.

Gradients that are averaged wrongly are judged in :mod:`.averaged_gradients`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from distcheck import rules
from distcheck.core.model import Finding, Severity
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe

from .collective_sequences import condition_text, flow_of, guarded_calls, partial_guards, sequences_of, who_runs
from .learning_rates import keeps_wrapped_model, optimizers_changed
from .models import (
    WrappedModel,
    calls_in,
    comes_after,
    is_backward,
    lifted,
    model_of_parameters,
    roots,
    stripped,
    trains,
    wraps,
)
from .partial_models import unmatched
from .program import Program, SourceCall
from .rank_reach import Guard
from .term_queries import given_term, parts
from .values import Atom, Kind, RankCondition, Value
from .vocabulary import D, word_set

#: Methods that change a tensor in place, as moving averages do.
_IN_PLACE = word_set("lerp_ mul_ add_ copy_ sub_ lerp")
#: Methods of a model that compute nothing with it.
_KEPT = word_set("state_dict parameters named_parameters buffers eval train cpu save save_pretrained update step")

#: Names of functions that compute something with a model that they are handed.
_EVALUATES = lazy(r"^_?(eval|valid|test|infer|sample|generate|predict)", re.IGNORECASE)

_PREPARE = "accelerate.Accelerator.prepare"


@probe(rules.DC757)
def replicas_take_the_same_steps(program: Program) -> Iterator[Finding]:
    """What changes a model in DDP is done by all ranks."""
    known = wraps(program, "ddp")
    if not known and not any(True for _ in program.calls_to(_PREPARE)):
        return
    sequences = sequences_of(program)
    done: set[tuple[int, int]] = set()
    for call, guards in guarded_calls(program):
        found = _change(program, call, known, guards)
        if found is None or (call.file, guards[0].block) in done:
            continue
        what, basis, severity = found
        guard = unmatched(sequences, call, guards, _alike(call))
        if guard is None or _is_broadcast_later(program, call):
            continue
        done.add((call.file, guards[0].block))
        condition, at = condition_text(program, call.file, guard), program.line_name(call.file, guard.line)
        yield call.found(
            rules.DC757,
            f"`{call.text()}` {what}, but {who_runs(guard.who)} it (`{condition}` in {at})",
            fix=f"call it on all ranks, outside of the branch in {at}",
            basis=(guard.who, *basis),
            severity=call.milder_in_tests(rules.DC757) if severity is None else severity,
            flow=[*flow_of(program, call.file, guard.term), call.as_step()],
            reached_by=guard.who.who,
        )


def _alike(call: SourceCall) -> Callable[[SourceCall], bool]:
    """Return a test for calls of the same name."""
    return lambda other: other.method == call.method or (is_backward(call) and is_backward(other))


def _change(
    program: Program, call: SourceCall, known: list[WrappedModel], guards: list[Guard]
) -> tuple[str, tuple[Atom | RankCondition | int, ...], Severity | None] | None:
    """Return what a guarded call does to a replicated model, what that rests on, and its level."""
    if is_backward(call):
        wrapper = _forward_before(program, call, guards[0])
        if wrapper is None:
            return None
        level = Severity.WARNING if program.is_test(call.file) else Severity.ERROR
        return "averages the gradients of DDP among all ranks", (wrapper,), level
    if call.method == "step" and _optimizes(program, call.receiver, known):
        return "changes the parameters of a model in DDP, which has to be the same on all ranks", (), None
    if call.method == "step" and _schedules(program, call, known):
        return "changes the learning rate of a model in DDP, which has to be the same on all ranks", (), None
    if call.method == "step" and (changed := _prepared(program, call)) is not None:
        return f"changes {changed} of a model that Accelerate keeps the same on all ranks", (), None
    if call.method == "load_state_dict":
        if _optimizes(program, call.receiver, known):
            what = "changes the state of an optimizer, which has to be the same on all ranks"
        elif _is_replicated(program, call, known):
            what = "changes a model that DDP has made the same on all ranks"
        else:
            return None
        return (what, (), None) if _trained_later(program, call) else None
    for optimizer, kept in optimizers_changed(program, call):
        if not _trained_later(program, call) and not call.loops:
            break
        if _is_made_again(program, call):
            break
        if _optimizes(program, optimizer, known) or (kept and keeps_wrapped_model(program, call, known)):
            return "changes the learning rate of a model in DDP, which has to be the same on all ranks", (), None
    averaged = _averaged(program, call)
    if averaged and (user := _used_by_all(program, call, averaged)) is not None:
        return f"updates parameters in place that all ranks use in {user.line_name}", (), None
    return None


def _forward_before(program: Program, call: SourceCall, guard: Guard) -> Atom | None:
    """Return the wrapper of the forward pass that a backward pass belongs to, if all ranks have made it."""
    sources = [call.term[1], *call.argument_terms]
    for source in sources:
        for number in parts(program, call.file, source):
            term = call.terms[number]
            if term[0] != "c":
                continue
            forward = SourceCall(program, call.file, term[5])
            wrapper = forward.callee.wrapped("ddp")
            if wrapper is not None and forward.scope == call.scope and not partial_guards(forward):
                return None if any(number == guard.block for number, _ in forward.blocks) else wrapper
    return None


def _schedules(program: Program, call: SourceCall, known: list[WrappedModel]) -> bool:
    """Return whether a method belongs to a scheduler of the learning rate of a model in DDP."""
    for atom in call.receiver:
        made = program.call_of(atom) if str(atom.const).startswith("torch.optim.lr_scheduler.") else None
        optimizer = made.argument(0, "optimizer") if made is not None else None
        if optimizer is not None and _optimizes(program, optimizer, known):
            return True
    return False


def _prepared(program: Program, call: SourceCall) -> str | None:
    """Return what a step of an optimizer or a scheduler changes, where ``Accelerator.prepare`` got the optimizer."""
    for atom in call.receiver:
        inner = Value(atom.of) if atom.kind == Kind.WRAPPED and atom.const == "prepared" else Value((atom,))
        for one in inner:
            if one.kind != Kind.RESULT or not str(one.const).startswith("torch.optim."):
                continue
            if "lr_scheduler" not in str(one.const):
                return "the parameters" if atom.kind == Kind.WRAPPED else None
            if any(other.file == call.file for other in program.calls_to(_PREPARE)):
                return "the learning rate"
    return None


def _optimizes(program: Program, value: Value, known: list[WrappedModel]) -> bool:
    """Return whether a value is an optimizer of a model in DDP."""
    for atom in value:
        if atom.kind != Kind.RESULT or not str(atom.const).startswith("torch.optim.") or "lr_scheduler" in atom.const:
            continue
        made = program.call_of(atom)
        if made is None:
            continue
        model = model_of_parameters(program, made.file, made.argument_term(0, "params"))
        if model >= 0 and roots(program, made.file, made.scope, model, known):
            return True
    return False


def _is_replicated(program: Program, call: SourceCall, known: list[WrappedModel]) -> bool:
    """Return whether a method belongs to a model that was wrapped before."""
    term = call.receiver_term
    found = roots(program, call.file, call.scope, term, known) if term >= 0 else []
    return bool(found) and all(
        root.steps == 0 and (root.kind != "raw" or comes_after(program, root.wrap.call, call)) for root in found
    )


def _trained_later(program: Program, call: SourceCall) -> bool:
    """Return whether all ranks train after a call: what only one rank loads at the end is its own affair."""
    return any(
        other.number > row.number
        and not partial_guards(other)
        and (is_backward(other) or any(trains(program, function) for function in program.functions(other)))
        for row in lifted(program, call)
        for other in calls_in(program, (row.file, row.scope))
    )


def _is_made_again(program: Program, call: SourceCall) -> bool:
    """Return whether all ranks make the same call after this one, or in the same loop."""
    loop = call.loops[-1][0] if call.loops else 0
    return any(
        other.method == call.method
        and not partial_guards(other)
        and (other.number > call.number or (loop and any(number == loop for number, _ in other.blocks)))
        for other in calls_in(program, (call.file, call.scope))
    )


def _is_broadcast_later(program: Program, call: SourceCall) -> bool:
    """Return whether the other ranks get the result: by a broadcast further down."""
    return any(
        other.number > row.number
        and (other.is_to(D + "broadcast", D + "broadcast_object_list") or _sends(program, other))
        for row in lifted(program, call, 1)
        for other in calls_in(program, (row.file, row.scope))
    )


def _sends(program: Program, call: SourceCall) -> bool:
    """Return whether a function of the project broadcasts something."""
    return any(
        row.is_to(D + "broadcast", D + "_broadcast_coalesced")
        for function in program.functions(call)
        for row in calls_in(program, function)
    )


def _averaged(program: Program, call: SourceCall) -> set[int]:
    """Return what a call of the project updates in place, parameter by parameter: terms of the caller."""
    functions = program.functions(call)
    if len(functions) != 1:
        return set()
    file, scope = functions[0]
    found: set[int] = set()
    for row in calls_in(program, functions[0]):
        base = row.receiver_term
        if row.method not in _IN_PLACE or base < 0:
            continue
        while base >= 0 and (inner := _same_tensor(row.terms, base)) >= 0:
            base = inner
        model = model_of_parameters(program, file, _zipped(program, file, base))
        while model >= 0 and row.terms[model][0] == "a":
            model = row.terms[model][1]
        if model < 0 or row.terms[model][0] != "p" or row.terms[model][1] != scope:
            continue
        given = given_term(call, functions[0], row.terms[model][2])
        if given >= 0:
            found.add(stripped(program, call.file, given))
    return found


def _same_tensor(terms: list[tuple[Any, ...]], term: int) -> int:
    """Return what a term is made of by a method or as ``.data``, or -1: ``p`` of ``p.data.mul_(0.9)``."""
    parts = terms[term]
    if parts[0] == "c" and terms[parts[1]][0] == "a":
        return int(terms[parts[1]][1])
    return int(parts[1]) if parts[0] == "a" and parts[2] == "data" else -1


def _zipped(program: Program, file: int, term: int) -> int:
    """Return the iterable behind one of the names of ``for a, b in zip(…)``; the term itself for others."""
    terms = program.terms[file]
    if term >= 0 and terms[term][0] == "x" and terms[terms[term][1]][0] == "e":
        source = terms[terms[terms[term][1]][1]]
        if source[0] == "c" and terms[source[1]][0] == "v" and terms[source[1]][2] == "zip":
            return int(source[2][terms[term][2]]) if terms[term][2] < len(source[2]) else term
    return term


def _used_by_all(program: Program, call: SourceCall, models: set[int]) -> SourceCall | None:
    """Return a call of one of these models, or of a part of it, that all ranks make in the same function.

    So is one of an evaluation that is handed such a model: ``evaluate(average, loader)``.
    """
    for other in calls_in(program, (call.file, call.scope)):
        if other == call or partial_guards(other) or other.method in _KEPT:
            continue
        given = {stripped(program, call.file, term) for term in other.argument_terms}
        if other.loops and _EVALUATES.search(other.method) and not models.isdisjoint(given):
            return other
        callee = other.term[1]
        steps = 0
        while call.terms[callee][0] == "a":
            callee = call.terms[callee][1]
            steps += 1
        if callee in models and (steps == 0 or other.method not in _KEPT) and other.loops:
            return other
    return None


# DC765


@probe(rules.DC765)
def schedulers_step_for_their_own_optimizer(program: Program) -> Iterator[Finding]:
    """No loop over the ranks steps a scheduler: each rank has its own."""
    for call in program.calls_named("step"):
        schedules = [atom for atom in call.receiver if "lr_scheduler" in str(atom.const) and atom.kind == Kind.RESULT]
        if not schedules or len(schedules) != len(call.receiver.atoms) or not call.loops:
            continue
        loop, turns = call.loops[-1]
        term = call.terms[turns]
        if term[0] != "c" or program.blocks[call.file][loop][1] != "for":
            continue
        counted = SourceCall(program, call.file, term[5])
        count = counted.argument(0)
        if counted.method != "range" or counted.positional != 1 or count is None or not count.only(Kind.WORLD_SIZE):
            continue
        others = [row for row in call.rows_in(loop) if isinstance(row, SourceCall) and row != call]
        if any(row.method in ("step", "backward") for row in others):
            continue
        line = program.line_name(call.file, program.blocks[call.file][loop][4])
        yield call.found(
            rules.DC765,
            f"`{call.text()}` runs once for each rank, by the loop in {line}: right only if the schedule counts the "
            "batches of one process",
            fix="step the scheduler once, unless the schedule counts the batches of one process",
            severity=Severity.INFO,
        )
