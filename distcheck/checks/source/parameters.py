"""Probes of the parameters of wrapped models: frozen, moved or cast after wrapping, held by an optimizer that was built
before they were sharded, clipped by the norm of one shard.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe

from .models import (
    Root,
    WrappedModel,
    calls_in,
    comes_after,
    is_backward,
    leaves_whole,
    lifted,
    made_by,
    model_of_parameters,
    name_of,
    near,
    precedes,
    roots,
    trains,
    wraps,
)
from .program import EventRow, Program, SourceCall
from .source_text import last_name
from .values import Kind

_PARAMETERS = frozenset(["parameters", "named_parameters"])


# DC751


class _Switch(NamedTuple):
    """A line that sets ``requires_grad``."""

    row: EventRow
    model: int
    wanted: bool
    #: only parameters of certain names
    chosen: bool


def _switches(program: Program, files: set[int]) -> Iterator[_Switch]:
    """Yield all lines in these files that set ``requires_grad`` of parameters to a constant."""
    for row in program.rows("attribute", files):
        if row.payload[1] != "requires_grad":
            continue
        wanted = row.term_value(row.payload[2]).constant
        model = model_of_parameters(program, row.file, row.payload[0])
        if isinstance(wanted, bool) and model >= 0:
            yield _Switch(row, model, wanted, _is_chosen(row))
    for call in program.calls_named("requires_grad_", files=files):
        wanted = call.constant(0, "requires_grad", True)
        term = call.receiver_term
        if not isinstance(wanted, bool) or term < 0 or last_name(call.terms, term) == "grad":
            continue
        model = model_of_parameters(program, call.file, term)
        yield _Switch(call, model if model >= 0 else term, wanted, model >= 0 and _is_chosen(call))


def _is_chosen(row: EventRow) -> bool:
    """Return whether a condition stands between a row and the innermost loop around it."""
    kinds = [node[1] for _, node in row.blocks]
    for kind in reversed(kinds):
        if kind in ("for", "while"):
            return False
        if kind == "if" or kind.startswith("exit:"):
            return True
    return False


@probe(rules.DC751)
def requires_grad_after_wrap(program: Program) -> Iterator[Finding]:
    """Which parameters are trained is settled before DDP puts its hooks on them."""
    known = wraps(program, "ddp")
    if not known:
        return
    switches = list(_switches(program, near(program, known)))
    placed = [
        (switch, root)
        for switch in switches
        for root in roots(program, switch.row.file, switch.row.scope, switch.model, known)[:1]
    ]
    reported: set[tuple[int, int, int]] = set()
    for switch, root in placed:
        after = root.kind != "raw" or comes_after(program, root.wrap.call, switch.row)
        row = switch.row
        if not after or _wrapped_again(program, root, row) or not _goes_on(program, row, root.wrap):
            continue
        key = (row.file, row.scope, int(switch.wanted))
        if key in reported:
            continue
        others = [one for one, other in placed if other.wrap == root.wrap and one.row != row]
        name = name_of(program, root.wrap.call) or "the model"
        if switch.wanted:
            if not _frozen_before(program, switches, root, row):
                continue
            message = f"parameters of {name} are unfrozen after DDP has wrapped it: their gradients are not averaged"
        else:
            partial = root.steps > 0 or switch.chosen
            if not partial or any(one.wanted for one in others) or _spares_unused(root.wrap.call):
                continue
            message = f"parameters of {name} are frozen after DDP has wrapped it: it misses their gradients and fails"
        reported.add(key)
        wrap = root.wrap.call
        yield row.found(
            rules.DC751,
            message,
            fix=f"set requires_grad before DDP wraps the model at {wrap.place}, or wrap {name}.module again afterwards",
            severity=row.level_in_tests,
            wrapped_at=f"{wrap.place}",
            flow=program.flow(*(atom.flow for atom in wrap.result)),
        )


@probe(rules.DC751)
def layers_are_there_when_wrapped(program: Program) -> Iterator[Finding]:
    """A wrapped model gets no new layer: DDP has put its hooks on the parameters that it found."""
    known = wraps(program, "ddp")
    for row in program.rows("attribute", near(program, known)) if known else ():
        if not _is_layer(program, row):
            continue
        for root in roots(program, row.file, row.scope, row.payload[0], known)[:1]:
            wrap = root.wrap.call
            after = root.kind == "bare" or (root.kind == "raw" and comes_after(program, wrap, row))
            if not after or _wrapped_again(program, root, row) or not _goes_on(program, row, root.wrap):
                continue
            name = name_of(program, wrap) or "the model"
            yield row.found(
                rules.DC751,
                f"`{row.text()}` puts a new layer into {name}, which DDP has wrapped: its gradients are not averaged",
                fix=f"replace the layer before DDP wraps the model in {program.line_name(wrap.file, wrap.line)}",
                severity=row.level_in_tests,
                wrapped_at=f"{wrap.place}",
            )


def _is_layer(program: Program, row: EventRow) -> bool:
    """Return whether an attribute gets a new layer of torch that has parameters."""
    if row.payload[2] < 0:
        return False
    term = row.terms[row.payload[2]]
    return term[0] == "c" and SourceCall(program, row.file, term[5]).is_to(*_LAYERS)


#: Layers with parameters that are set in place of others.
_LAYERS = tuple(
    f"torch.nn.{name}"
    for name in (
        "Linear",
        "Conv1d",
        "Conv2d",
        "Conv3d",
        "Embedding",
        "LayerNorm",
        "BatchNorm1d",
        "BatchNorm2d",
        "Bilinear",
    )
)


def _frozen_before(program: Program, switches: list[_Switch], root: Root, row: EventRow) -> bool:
    """Return whether some parameters of a model were frozen when it was wrapped."""
    wrap = root.wrap
    for other in switches:
        block = other.row
        if other.wanted or block == row:
            continue
        found = roots(program, block.file, block.scope, other.model, [wrap])
        if any(one.kind == "raw" for one in found) and not comes_after(program, wrap.call, block):
            return True
        # in a method of the network's own class
        terms = program.terms[block.file]
        number = other.model
        while number >= 0:
            if any(atom.kind == Kind.OBJECT and atom.const in wrap.classes for atom in block.term_value(number)):
                return True
            number = terms[number][1] if terms[number][0] in ("a", "s") else -1
    return False


def _spares_unused(call: SourceCall) -> bool:
    """Return whether DDP expects that some parameters get no gradient, or may expect it."""
    names = ("find_unused_parameters", "static_graph")
    return call.has_star or any(call.constant(None, name, False) is not False for name in names)


def _wrapped_again(program: Program, root: Root, row: EventRow) -> bool:
    """Return whether the network inside is wrapped again after a row."""
    for call in calls_in(program, (row.file, row.scope)):
        if call.number <= row.number or call == root.wrap.call:
            continue
        for atom in call.result:
            if atom.kind == Kind.WRAPPED and atom.call == (call.file, call.number):
                inner = [one for part in atom.of for one in (part, *part.of)]
                if any(
                    one.kind == Kind.WRAPPED and one.call == (root.wrap.call.file, root.wrap.call.number)
                    for one in inner
                ):
                    return True
                if made_by(program, atom.of, (row.file, row.scope)) & root.wrap.made:
                    return True
    return False


def _goes_on(program: Program, row: EventRow, wrap: WrappedModel) -> bool:
    """Return whether training of a wrapped model goes on after a row: later, or in the next round of a loop around it.

    A loop in which the model is wrapped, too, makes a new wrapper in each round.
    """
    wrapping = {(one.file, number) for one in lifted(program, wrap.call) for number, _ in one.loops}
    for one in lifted(program, row):
        around = {number for number, _ in one.loops if (one.file, number) not in wrapping}
        backward = used = False
        for call in calls_in(program, (one.file, one.scope)):
            later = call.number > one.number and not program.excludes(one, call)
            if call == one or not (later or around & {number for number, _ in call.loops}):
                continue
            backward = backward or is_backward(call)
            backward = backward or any(trains(program, inner, 1) for inner in program.functions(call))
            used = used or _uses(program, call, wrap)
        if backward and used:
            return True
    return False


def _uses(program: Program, call: SourceCall, wrap: WrappedModel, depth: int = 0) -> bool:
    """Whether a call is a forward of a wrapper, is given the wrapper, or enters a function that runs such a forward."""
    made = (wrap.call.file, wrap.call.number)
    for value in (call.callee, *(call.term_value(number) for number in call.term[2])):
        if any(atom.kind == Kind.WRAPPED and atom.call == made for atom in value):
            return True
    return depth < 3 and any(
        _uses(program, inner, wrap, depth + 1)
        for function in program.functions(call)
        if function != (call.file, call.scope)
        for inner in calls_in(program, function)
    )


# DC752


_OPTIMIZERS = lazy(
    r"^(torch\.optim\.(?!lr_scheduler)(\w+\.)*[A-Z]\w*|transformers\.(AdamW|Adafactor|optimization\.\w+)"
    r"|apex\.optimizers\.\w+|bitsandbytes\.optim\.\w+"
    r"|torch_optimizer\.[A-Z]\w*|deepspeed\.ops\.(adam|lamb)\.\w+)$"
)


@probe(rules.DC752)
def optimizer_before_sharding(program: Program) -> Iterator[Finding]:
    """An optimizer holds the parameters that a sharded model has, and not those that it had."""
    known = [wrap for wrap in wraps(program, "fsdp", "fsdp2") if not _keeps_parameters(wrap.call)]
    if not known:
        return
    files = near(program, known)
    for row in program.rows("call", files):
        call = SourceCall(program, row.file, row.number)
        # the name of an optimizer's class, or of one that it was imported as
        if not call.method[:1].isupper() or not any(_OPTIMIZERS.match(target) for target in call.targets):
            continue
        wrap = _sharded_later(program, call, known)
        if wrap is None or _built_again(program, call, wrap):
            continue
        name = name_of(program, call) or "the optimizer"
        wrapper = "fully_shard" if wrap.way == "fsdp2" else "FSDP"
        yield call.found(
            rules.DC752,
            f"{name} gets parameters that {wrapper} replaces afterwards, at {wrap.call.place}:"
            " its steps change nothing",
            fix=f"build {name} after the model is sharded, below {wrap.call.place}",
            severity=call.level_in_tests,
            optimizer=call.text(),
            sharded_at=f"{wrap.call.place}",
        )


def _keeps_parameters(call: SourceCall) -> bool:
    """Return whether FSDP keeps the parameters that the model has, or may keep them."""
    return call.has_star or call.constant(None, "use_orig_params", False) is not False


def _sharded_later(program: Program, call: SourceCall, known: list[WrappedModel]) -> WrappedModel | None:
    """Return where the model whose parameters an optimizer gets is sharded after that."""
    terms = program.terms[call.file]
    given = [*call.term[2], *(value for name, value in call.term[3] if name in ("params", "parameters"))]
    for number in program.subterms(call.file, *given):
        term = terms[number]
        if term[0] != "c" or terms[term[1]][0] != "a" or terms[term[1]][2] not in _PARAMETERS:
            continue
        base = terms[term[1]][1]
        if program.evaluator.value(call.file, base).has(Kind.WRAPPED, Kind.BARE):
            continue
        for root in roots(program, call.file, call.scope, base, known):
            if root.kind == "raw" and precedes(program, call, root.wrap.call):
                return root.wrap
    return None


def _built_again(program: Program, call: SourceCall, wrap: WrappedModel) -> bool:
    """Return whether an optimizer of the same name is built once more after the model was sharded."""
    name = name_of(program, call)
    for other in calls_in(program, (wrap.call.file, wrap.call.scope)):
        if other.number > wrap.call.number and (
            any(_OPTIMIZERS.match(target) for target in other.targets) or (name and name_of(program, other) == name)
        ):
            return True
    return False


# DC753


_DISTINGUISHES = lazy(r"fsdp|shard|strategy|zero|hasattr|isinstance|callable|parallel|backend|dtensor", re.IGNORECASE)


@probe(rules.DC753)
def clip_on_fsdp1(program: Program) -> Iterator[Finding]:
    """Gradients of FSDP are clipped by the norm over all shards."""
    known = wraps(program, "fsdp")
    if not known:
        return
    for call in program.calls_to(
        "torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad.clip_grad_norm_", "torch.nn.utils.clip_grad_norm"
    ):
        model = model_of_parameters(program, call.file, call.argument_term(0, "parameters"))
        if model < 0:
            continue
        value = program.evaluator.value(call.file, model)
        atom = value.wrapped("fsdp")
        if atom is None or value.wrapped("ddp", "fsdp2", "deepspeed", "prepared") is not None:
            continue
        wrap = program.call_of(atom)
        if wrap is not None and leaves_whole(wrap):
            continue
        if call.inside("except") or any(
            _DISTINGUISHES.search(call.term_text(node[2]))
            for _, node in call.blocks
            if node[1] == "if" or node[1].startswith("exit:")
        ):
            continue
        given = call.argument_text(0, "parameters")
        name = (
            given.removesuffix(".parameters()")
            if given.endswith(".parameters()")
            else name_of(program, wrap)
            if wrap
            else ""
        )
        name = name or "model"
        limit = call.argument_text(1, "max_norm") or "max_norm"
        yield call.found(
            rules.DC753,
            f"{name} is sharded by FSDP, and clip_grad_norm_ computes the norm of this rank's shard only",
            fix=f"call {name}.clip_grad_norm_({limit}) on all ranks: it sums the norm over the shards",
            basis=(atom,),
            severity=call.level_in_tests,
            flow=program.flow(atom.flow),
        )


# DC756


_TO_CPU = frozenset({"cpu"})
_TENSORS = frozenset({"data", "grad", "weight", "bias"})
_TO_GPU = frozenset({"cuda", "xpu", "npu"})
_CASTS = frozenset({"half", "bfloat16", "double"})
_DTYPES = lazy(r"(^|\.)(float16|bfloat16|half|double|float64)$")


@probe(rules.DC756)
def moved_after_wrap(program: Program) -> Iterator[Finding]:
    """A model is moved and cast before it is wrapped."""
    known = wraps(program, "ddp")
    if not known:
        return
    reported: set[tuple[int, int, int]] = set()
    files = near(program, known)
    moves = program.calls_named("to", *_TO_CPU, *_TO_GPU, *_CASTS, files=files)
    for call in sorted(moves, key=lambda call: (call.file, call.number)):
        terms = program.terms[call.file]
        term = call.receiver_term
        # a tensor is copied, and stays where it is
        if term < 0 or (terms[term][0] == "a" and terms[term][2] in _TENSORS):
            continue
        found = _moved(program, call, term, known)
        if found is None:
            continue
        root, what = found
        wrap = root.wrap.call
        key = (wrap.file, wrap.number, call.scope)
        if key in reported or _wrapped_again(program, root, call) or not _goes_on(program, call, root.wrap):
            continue
        reported.add(key)
        yield call.found(
            rules.DC756,
            f"{call.text()} {what} parameters that DDP has put its hooks on: their gradients are no longer averaged",
            fix=f"move and cast the model before DDP wraps it at {wrap.place};"
            " for a checkpoint copy the state_dict, not the model",
            severity=call.level_in_tests,
            wrapped_at=f"{wrap.place}",
            flow=program.flow(*(atom.flow for atom in wrap.result)),
        )


def _moved(program: Program, call: SourceCall, model: int, known: list[WrappedModel]) -> tuple[Root, str] | None:
    """Return the wrapped model that a call certainly moves to another device or dtype, and which of both."""
    found = [
        root
        for root in roots(program, call.file, call.scope, model, known)
        if root.kind != "raw" or (call.number != root.wrap.call.number and comes_after(program, root.wrap.call, call))
    ]
    if not found or any(program.evaluator.value(call.file, model).has(kind) for kind in ("unknown", "constant")):
        return None
    root = found[0]
    kind = _destination(call)
    if kind == "dtype":
        return root, "casts"
    if kind == "cpu":
        return (root, "moves") if not _was_on_cpu(program, root.wrap) else None
    if kind == "device" and _was_on_cpu(program, root.wrap):
        return root, "moves"
    return None


def _destination(call: SourceCall) -> str:
    """``cpu``, ``device`` (another one), ``dtype``, or empty where nothing of both changes for sure."""
    if call.method in _TO_CPU:
        return "cpu"
    if call.method in _TO_GPU:
        return "device"
    if call.method in _CASTS:
        return "dtype"
    for position, name in ((0, "device"), (0, "dtype"), (1, "dtype")):
        given = call.argument(position, name)
        if given is None:
            continue
        for atom in given:
            if atom.kind == Kind.NAMED and _DTYPES.search(str(atom.const)):
                return "dtype"
            if atom.kind == Kind.CONST and isinstance(atom.const, str):
                return "cpu" if atom.const == "cpu" else "device"
            if atom.kind == Kind.DEVICE:
                return "cpu" if atom.const == "cpu" else "device"
        if name == "device" and not given.has(Kind.NAMED):
            return "device"
    return ""


def _was_on_cpu(program: Program, wrap: WrappedModel) -> bool:
    """Return whether a model was certainly on the CPU when it was wrapped: made nearby, and never moved before."""
    call = wrap.call
    if call.gives(1, "device_ids"):
        return False
    if not wrap.made:
        return _is_untouched_parameter(program, call)
    makers = [SourceCall(program, *made) for made in wrap.made]
    if any((maker.file, maker.scope) != (call.file, call.scope) for maker in makers):
        return False
    for other in calls_in(program, (call.file, call.scope)):
        if other.number > call.number:
            break
        if other.is_to("torch.set_default_device", "torch.cuda.set_default_device") or other.within("device"):
            return False
        if any(name in ("device", "device_map") for name in other.keywords) and other in makers:
            return False
        # who gets the model may move it
        given = list(other.term[2]) if other.number < call.number and other not in makers else []
        if other.receiver_term >= 0 and (other.method in _TO_GPU or other.method in ("to", "to_empty")):
            given.append(other.receiver_term)
        if any(made_by(program, other.term_value(number), (call.file, call.scope)) & wrap.made for number in given):
            return False
    return all(_builds_on_cpu(maker) for maker in makers)


def _is_untouched_parameter(program: Program, call: SourceCall) -> bool:
    """Whether a parameter is wrapped that nothing in the project passes, and that its function has not moved before."""
    term = call.argument_term(0, "module")
    terms = program.terms[call.file]
    if term < 0 or terms[term][0] != "p" or program.callers((call.file, call.scope)):
        return False
    return not any(
        other.number < call.number
        and other.receiver_term == term
        and (other.method in _TO_GPU or other.method in ("to", "to_empty"))
        for other in calls_in(program, (call.file, call.scope))
    )


def _builds_on_cpu(maker: SourceCall) -> bool:
    """Return whether a constructor leaves a model on the CPU: a layer of torch, or a class that moves nothing."""
    program = maker.program
    if any(target.startswith(("torch.nn.", "torchvision.models.")) for target in maker.targets):
        return True
    moves = ("cuda", "to", "set_default_device")
    return any(
        all(call.method not in moves for call in calls_in(program, function)) for function in program.functions(maker)
    )
