"""Wrapped models that only some ranks use: a forward pass of DDP, the state of a sharded model.

Both are collectives that do not look like any. Only a model that is traced to its wrapper counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from distcheck import rules
from distcheck.core.model import Finding, Severity
from distcheck.core.registry import probe

from . import vocabulary
from .buffers import APEX, has_buffers
from .collective_sequences import Sequences, condition_text, flow_of, guarded_calls, sequences_of, who_runs
from .models import is_backward, is_whole, leaves_whole, without_gradients
from .program import Program, SourceCall
from .rank_reach import Guard
from .source_text import last_name
from .term_queries import given_terms, same_path
from .values import PARTIAL, Atom, Kind, Value, Who
from .vocabulary import words

#: What writes or reads the part of each rank.
_OF_PARTS = frozenset(words("save async_save save_checkpoint save_16bit_model save_state_dict load load_checkpoint"))
#: How deep helpers are followed.
_DEEPEST = 3
#: Methods of a sharded model that gather its parts.
_GATHERING = {
    "fsdp": frozenset(["state_dict", "sharded_state_dict", "full_state_dict", "summon_full_params", "clip_grad_norm_"]),
    "deepspeed": frozenset(
        [
            "save_checkpoint",
            "save_16bit_model",
            "save_fp16_model",
            "load_checkpoint",
            "_zero3_consolidated_16bit_state_dict",
        ]
    ),
}
#: What splits a model among ranks: where none of it is in the project, a state dict is a local affair.
_SHARDING = words(
    "torch.distributed.fsdp.FullyShardedDataParallel torch.distributed.fsdp.fully_shard "
    "torch.distributed.tensor.parallel.parallelize_module torch.distributed.tensor.distribute_tensor "
    "torch.distributed.tensor.distribute_module fairscale.nn.FullyShardedDataParallel"
)
_OF_A_MODEL = "torch.distributed.checkpoint.state_dict."


@probe(rules.DC704)
def forward_runs_on_all_ranks(program: Program) -> Iterator[Finding]:
    """A model in DDP is called by all ranks, or without its wrapper; a model in FSDP by all ranks."""
    sequences = sequences_of(program)
    done: set[tuple[int, int]] = set()
    for call, guards in guarded_calls(program):
        found = _forward(program, call)
        if found is None:
            continue
        guard = unmatched(sequences, call, guards, lambda other: _forward(program, other) is not None)
        if guard is None or (call.file, guard.block) in done:
            continue
        done.add((call.file, guard.block))
        inner, wrapper = found
        gathers = wrapper.const == "fsdp"
        if not gathers and _sends_no_buffers_again(program, call, inner):
            continue
        synchronises = gathers or _backward_follows(program, inner) or has_buffers(program, wrapper)
        if synchronises is False:
            continue
        model = call.term_text(call.term[1]) if inner == call else _passed(call)
        here = _place(call, inner)
        kind = "FSDP, which gathers the shards of all ranks" if gathers else "DDP, which all ranks must run together"
        subject = f"`{here.text()}` is a forward pass of {kind}"
        if here != inner:
            subject = f"`{call.text()}` runs a forward pass ({inner.place}) of {kind}"
        yield here.found(
            rules.DC704,
            f"{subject}, but {_by(program, call, here, guard)}",
            fix="run it on all ranks"
            + (", in FSDP.summon_full_params(model, writeback=False, recurse=False)" * (inner.method == "generate"))
            if gathers
            else f"run it on all ranks, or use the model without its wrapper on this rank: `{model}.module`"
            if model
            else "run it on all ranks, or call the model without its wrapper: `.module`",
            basis=(guard.who, wrapper),
            severity=here.milder_in_tests(rules.DC704) if synchronises else Severity.INFO,
            flow=[
                *program.flow(wrapper.flow),
                *flow_of(program, call.file, guard.term),
                call.as_step(),
            ],
            reached_by=guard.who.who,
        )


@probe(rules.DC705)
def sharded_state_is_collected_by_all_ranks(program: Program) -> Iterator[Finding]:
    """All ranks request the state of a sharded model."""
    sequences = sequences_of(program)
    done: set[tuple[int, int, str]] = set()
    for call, guards in guarded_calls(program):
        found = _gathering(program, call)
        if found is None:
            continue
        what, inner, wrapper = found
        guard = unmatched(sequences, call, guards, lambda other: _gathering(program, other) is not None)
        if guard is None or (call.file, guard.block, what) in done:
            continue
        done.add((call.file, guard.block, what))
        here = _place(call, inner)
        behind = "" if here == inner else f" ({what} at {inner.place})"
        at = program.line_name(call.file, guard.line)
        writes = what.rsplit(".", 1)[-1] in _OF_PARTS
        yield here.found(
            rules.DC705,
            f"`{here.text()}`{behind} gathers parts from all ranks, but {_by(program, call, here, guard)}",
            fix=f"call it on all ranks, without the test in {at}: each rank has its part to do"
            if writes
            else f"call it on all ranks before the test in {at}, which then guards only what is done with the result",
            basis=(guard.who,) if wrapper is None else (guard.who, wrapper),
            severity=here.milder_in_tests(rules.DC705),
            flow=[
                *(program.flow(wrapper.flow) if wrapper is not None else ()),
                *flow_of(program, call.file, guard.term),
                call.as_step(),
            ],
            reached_by=guard.who.who,
            call=what,
        )


@probe(rules.DC705)
def state_of_an_accelerator_is_saved_by_all_ranks(program: Program) -> Iterator[Finding]:
    """All ranks save the state of an Accelerator: each has random states of its own, and shards with some plug-ins."""
    for call in program.calls_named("save_state"):
        who = call.reached_by
        if who.who not in PARTIAL or not who.traced:
            continue
        if not call.is_to("accelerate.Accelerator.save_state") and (
            call.targets or last_name(call.terms, call.terms[call.term[1]][1]) != "accelerator"
        ):
            continue
        yield call.found(
            rules.DC705,
            f"`{call.text()}` is for all ranks, but {who_runs(who)} it: FSDP and DeepSpeed hang, and the random "
            "states of the others are lost",
            fix="call it on all ranks, without the rank check: it writes each file on the right one",
            basis=(who,),
            severity=Severity.INFO,
        )


def unmatched(
    sequences: Sequences, call: SourceCall, guards: list[Guard], alike: Callable[[SourceCall], bool]
) -> Guard | None:
    """Return the first guard whose other ranks do nothing of the kind in their own arm."""
    for guard in guards:
        others = [
            other
            for place in sequences.arms_against(call, guard)
            for other in call.rows_in(place)
            # what stands under a further condition may be for another setting
            if isinstance(other, SourceCall)
            and not any(node[1] == "if" and number > place for number, node in other.blocks)
        ]
        if any(_does(sequences.program, other, alike) for other in others):
            continue
        return guard
    return None


def _does(program: Program, call: SourceCall, alike: Callable[[SourceCall], bool]) -> bool:
    """Return whether a call does the same, or enters or is handed a function that does: ``optimizer.step(closure)``."""
    if alike(call):
        return True
    entered = [function for function in program.functions(call) if function != (call.file, call.scope)]
    entered += [
        atom.const
        for term in call.argument_terms
        for atom in call.term_value(term)
        if atom.kind == Kind.FUNCTION and atom.const != (call.file, call.scope)
    ]
    return any(isinstance(row, SourceCall) and alike(row) for one in entered for row in program.rows_of(*one))


def _sends_no_buffers_again(program: Program, call: SourceCall, inner: SourceCall) -> bool:
    """Return whether all ranks have made the forward pass before a call without gradients, as this one.

    Without gradients DDP sends its buffers once, until the next training step (``require_forward_param_sync``).
    """
    if not (without_gradients(program, call) or without_gradients(program, inner)):
        return False
    last = None
    for row in program.rows_of(call.file, call.scope):
        if row.number >= call.number:
            break
        if isinstance(row, SourceCall) and (made := _forward(program, row)) is not None:
            last = row, made[0]
    return (
        last is not None
        and last[0].own_reached_by.who not in PARTIAL
        and any(without_gradients(program, row) for row in last)
        and _has_run(last[0], call)
    )


def _has_run(earlier: SourceCall, call: SourceCall) -> bool:
    """Return whether a call has run when another one does: a loop over data has at least one turn."""
    around = {number for number, _ in call.blocks}
    return all(
        number in around or node[1] in ("for", "with", "try", "finally") or node[1].startswith("exit:")
        for number, node in earlier.blocks
    )


def _backward_follows(program: Program, forward: SourceCall) -> bool:
    """Return whether gradients of a forward pass may be computed in its function: then they are averaged."""
    if without_gradients(program, forward):
        return False
    return any(isinstance(row, SourceCall) and is_backward(row) for row in program.rows_of(forward.file, forward.scope))


def _place(call: SourceCall, inner: SourceCall) -> SourceCall:
    """Return where to report what a guarded call does inside: there, if nothing else gets there; else at the call."""
    if inner == call or inner.file != call.file:
        return call
    entry = inner.entry
    return inner if entry.who in PARTIAL and entry.traced else call


def _by(program: Program, call: SourceCall, here: SourceCall, guard: Guard) -> str:
    """Return which ranks reach it, and by which test."""
    test = f"`{condition_text(program, call.file, guard)}` in {program.line_name(call.file, guard.line)}"
    if here == call:
        return f"{who_runs(guard.who)} it ({test})"
    return f"{who_runs(guard.who)} it, through {call.line_name} ({test})"


def _passed(call: SourceCall) -> str:
    """Return the source of the wrapped model among the arguments."""
    for position in range(call.positional):
        value = call.argument(position)
        if value is not None and value.wrapped("ddp"):
            return call.argument_text(position)
    for name in call.keywords:
        value = call.argument(None, name)
        if value is not None and value.wrapped("ddp"):
            return call.argument_text(None, name)
    return ""


def _synchronising(program: Program, value: Value) -> Atom | None:
    """Return the wrapper of DDP or FSDP1 that a value is for sure; None where it may be bare, or has nothing to
    synchronise.
    """
    sharded = _sharded(program, value)
    if sharded is not None and sharded.const == "fsdp":
        made = program.call_of(sharded)
        return None if made is None or leaves_whole(made) else sharded
    wrappers = [atom for atom in value if atom.kind == Kind.WRAPPED and atom.const == "ddp"]
    if not wrappers or value.has(Kind.BARE) or _of_own_group(program, wrappers):
        return None
    # `DDP = apex's` where its package is there: the other arm decides
    by_torch = [atom for atom in wrappers if not _is_of_apex(program, atom)]
    for wrapper in by_torch or wrappers:
        made = program.call_of(wrapper)
        if made is None or made.constant(None, "broadcast_buffers", True) is True:
            return wrapper
    return None


def _is_of_apex(program: Program, wrapper: Atom) -> bool:
    made = program.call_of(wrapper)
    return made is not None and made.is_to(APEX)


def _forward(program: Program, call: SourceCall) -> tuple[SourceCall, Atom] | None:
    """Return the forward pass of a model in DDP or FSDP that a call is, or that what it calls makes, and wrapper."""
    wrapper = _called(program, call)
    if wrapper is not None:
        return call, wrapper
    functions = program.functions(call)
    if len(functions) != 1:
        return None
    given = _arguments(program, call, functions[0], ("ddp",))
    return _forward_inside(program, functions[0], call, given, 0)


def _called(program: Program, call: SourceCall) -> Atom | None:
    """Return the wrapper, where a call is one of a wrapped model itself."""
    wrapper = _synchronising(program, call.callee)
    if wrapper is None and call.method in ("forward", "generate"):
        wrapper = _synchronising(program, call.receiver)
        if wrapper is not None and call.method == "generate" and wrapper.const != "fsdp":
            return None  # DDP has no such method
    return None if wrapper is not None and wrapper.const == "fsdp" and is_whole(program, call) else wrapper


def _forward_inside(
    program: Program, function: tuple[int, int], entry: SourceCall, given: dict[str, Atom], depth: int
) -> tuple[SourceCall, Atom] | None:
    """Return the forward pass that a function makes with the models that it is given, or with one that it keeps.

    :param entry: the call that enters the function
    """
    file, scope = function
    terms = program.terms[file]
    if depth > _DEEPEST:
        return None
    layout = given_terms(entry, function)
    for row in program.rows_of(file, scope):
        if not isinstance(row, SourceCall) or row.own_reached_by.who not in _ALL or _excludes(entry, layout, row):
            continue
        callee = terms[row.term[1]]
        names = _parameters(terms, row.term[1], scope)
        if names:
            # what another caller gives for the parameter is no matter of this call
            wrapped = next((given[name] for name in names if name in given), None)
            if wrapped is not None and callee[0] in ("p", "?", "|"):
                return row, wrapped
            continue
        wrapper = _called(program, row)
        if wrapper is not None:
            return row, wrapper
        inner = program.functions(row)
        if len(inner) == 1 and inner[0] != function:
            found = _forward_inside(program, inner[0], row, _handed_on(row, inner[0], given), depth + 1)
            if found is not None:
                return found
    return None


def _excludes(entry: SourceCall, layout: dict[str, int], row: SourceCall) -> bool:
    """Return whether what a call gives for a parameter, or a condition around the call, excludes a row of the function.

    ``test(model, size)`` below ``if size:`` does not reach what stands below ``if not size:`` in ``test()``.

    :param layout: the terms that the call gives, by parameter
    """
    around = [(_plain_test(entry.terms, term), polarity) for term, polarity in _conditions(entry)]
    for term, polarity in _conditions(row):
        number, plain = _plain_test(row.terms, term)
        parts = row.terms[number]
        given = layout.get(parts[2], -1) if parts[0] == "p" and parts[1] == row.scope else -1
        if given < 0:
            continue
        constant = entry.term_value(given).constant
        if (constant is None or isinstance(constant, bool)) and bool(constant) != (polarity == plain):
            return True
        same, own = _plain_test(entry.terms, given)
        for (other, sign), holds in around:
            if same_path(entry.terms, other, same) and (holds == sign) != ((polarity == plain) == own):
                return True
    return False


def _conditions(row: SourceCall) -> list[tuple[int, bool]]:
    return [(node[2], node[3]) for _, node in row.blocks if node[1] == "if" or node[1].startswith("exit:")]


def _plain_test(terms: list[tuple[Any, ...]], term: int) -> tuple[int, bool]:
    """Return what decides a condition without ``not`` and ``True if … else False``, and whether the two are alike."""
    alike = True
    while term >= 0:
        parts = terms[term]
        if parts[0] == "u" and parts[1] == "not":
            term, alike = parts[2], not alike
        elif parts[0] == "?" and [terms[arm] for arm in parts[2:4]] == [("k", "bool", True), ("k", "bool", False)]:
            term = parts[1]
        else:
            break
    return term, alike


#: Who gets to what everyone in a function does.
_ALL = frozenset([Who.EVERYONE, Who.DISTRIBUTED, Who.UNCLEAR, Who.BY_DATA])


def _parameters(terms: list[tuple[Any, ...]], number: int, scope: int) -> list[str]:
    """Return the parameters of a function, other than the object of a method, that a model is one of, or comes from."""
    parts = terms[number]
    if parts[0] == "p":
        return [parts[2]] if parts[1] == scope and parts[2] not in ("self", "cls") else []
    if parts[0] == "a":
        return _parameters(terms, parts[1], scope)
    if parts[0] in ("?", "|"):
        return [name for arm in parts[-2:] for name in _parameters(terms, arm, scope)]
    if parts[0] == "c" and parts[2]:
        # wrapped once more, or unwrapped
        return [name for given in parts[2] for name in _parameters(terms, given, scope)]
    return []


def _handed_on(call: SourceCall, function: tuple[int, int], given: dict[str, Atom]) -> dict[str, Atom]:
    """Return what of its parameters a function hands on in a call, by the names that they have in what is called."""
    handed = {name: call.terms[term] for name, term in given_terms(call, function).items()}
    return {
        name: given[parts[2]]
        for name, parts in handed.items()
        if parts[0] == "p" and parts[1] == call.scope and parts[2] in given
    }


def _arguments(program: Program, call: SourceCall, function: tuple[int, int], ways: tuple[str, ...]) -> dict[str, Atom]:
    """Return the wrapped models among what a call gives, by the names of the parameters."""
    found = {}
    for name, term in given_terms(call, function).items():
        value = call.term_value(term)
        wrapper = _synchronising(program, value) if ways == ("ddp",) else _sharded(program, value)
        if wrapper is not None:
            found[name] = wrapper
    return found


def _sharded(program: Program, value: Value) -> Atom | None:
    """Return the wrapper of a model of which each rank of the job has a part, where it can be no other."""
    wrapper = value.wrapped("fsdp", "deepspeed")
    if wrapper is None or value.has(Kind.BARE) or value.wrapped("ddp", "dp") is not None:
        return None
    return None if _of_own_group(program, [wrapper]) else wrapper


def _of_own_group(program: Program, wrappers: list[Atom]) -> bool:
    """Return whether one of these wrappers is given a group: which ranks belong to it is not known here."""
    made = (program.call_of(wrapper) for wrapper in wrappers)
    return any(one is not None and program.is_of_own_group(one) for one in made)


def _gathering(program: Program, call: SourceCall) -> tuple[str, SourceCall, Atom | None] | None:
    """What gathers the parts of a model: its name, the call of it (here or in what is called), and the wrapper."""
    for target in call.targets:
        if target in vocabulary.SHARDED:
            return None if _is_alone(program, call, target) else (target, call, None)
    wrapper = _sharded(program, call.receiver)
    if wrapper is not None and call.method in _GATHERING.get(str(wrapper.const), ()):
        return call.method, call, wrapper
    functions = program.functions(call)
    if len(functions) == 1:
        given = _arguments(program, call, functions[0], ("fsdp", "deepspeed"))
        if given:
            return _gathering_inside(program, functions[0], given, 0)
    return None


def _gathering_inside(
    program: Program, function: tuple[int, int], given: dict[str, Atom], depth: int
) -> tuple[str, SourceCall, Atom | None] | None:
    file, scope = function
    terms = program.terms[file]
    if depth > _DEEPEST:
        return None
    for row in program.rows_of(file, scope):
        if not isinstance(row, SourceCall) or row.own_reached_by.who not in _ALL:
            continue
        callee = terms[row.term[1]]
        if callee[0] == "a":
            base = terms[callee[1]]
            if base[0] == "p" and base[1] == scope and base[2] in given:
                wrapper = given[base[2]]
                if row.method in _GATHERING.get(str(wrapper.const), ()):
                    return row.method, row, wrapper
        inner = program.functions(row)
        if len(inner) == 1 and inner[0] != function:
            passed = _handed_on(row, inner[0], given)
            if passed and (found := _gathering_inside(program, inner[0], passed, depth + 1)) is not None:
                return found
    return None


def _is_alone(program: Program, call: SourceCall, target: str) -> bool:
    """Whether such a call concerns this rank only: its arguments, its group, or the model is whole."""
    if call.has_star or call.gives(None, "process_group") or call.constant(None, "no_dist", False) is not False:
        return True
    if target.startswith(_OF_A_MODEL):
        model = call.argument(0, "model")
        if model is None or model.wrapped("ddp", "dp") is not None or model.has(Kind.BARE):
            return True
        return not (model.has(Kind.WRAPPED) or program.in_component(call.file, *_SHARDING))
    model = call.argument(0, "module")
    return (
        model is not None
        and target.startswith("torch.distributed.fsdp.")
        and model.has(Kind.DEVICE)
        and not model.has(Kind.UNKNOWN)
    )
