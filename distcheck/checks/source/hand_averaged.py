"""Gradients that a script averages by itself, without a wrapper: too late, for some parameters, as a sum, twice, in a
copy, or not at all (DC758, DC711).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Severity
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe

from .averaged_gradients import is_gradient, is_mean, is_optimizer, reduction_of, scaling_of
from .collective_outputs import copy_of
from .loader_loops import SAMPLER
from .models import calls_in, is_backward, wraps
from .program import EventRow, Program, SourceCall, cached
from .summary import Block
from .term_queries import parts, passed_on, payload_terms
from .values import Kind
from .vocabulary import COLLECTIVES, D, word_set

_WRAPPERS = ("ddp", "fsdp", "fsdp2", "deepspeed", "dp")
#: What may average gradients in a way that is not followed here.
_OTHER_WAYS = lazy(
    r"register_\w*hook|horovod|deepspeed|apex|accelerat|lightning|fully_shard|parallelize_module|PostLocalSGD|"
    r"ZeroRedundancy|Pipe|autograd\.Function|vmap|functorch|model_averaging|ModelAverager|_composable|\breplicate\(",
    literals=(
        "register_", "horovod", "deepspeed", "apex", "accelerat", "lightning", "fully_shard", "parallelize_module",
        "PostLocalSGD", "ZeroRedundancy", "Pipe", "autograd.Function", "vmap", "functorch", "model_averaging",
        "ModelAverager", "_composable", "replicate(",
    ),
)  # fmt: skip
#: What divides or scales in a way that is not followed here.
_SCALES = lazy(
    r"(?:/|\*|div_?\(|mul_?\(|scale\w{0,40}\()=?[^\n]{0,80}?(?:size|rank|replica|procs|gpus|nodes|world|\bws\b)"
    r"|\b(?:_foreach|foreach)_|\bsign_?\(",
    re.IGNORECASE,
)
#: Operators and methods that scale.
_OPERATORS = frozenset(["/", "*", "//"])
_METHODS = word_set("div div_ divide divide_ true_divide true_divide_ mul mul_ multiply multiply_ lerp_ scale scale_")
#: A test for parameters without elements.
_EMPTY = lazy(r"numel\(\) ?(?:[=!]=|[<>]=?) ?[01]\b|not [\w.…]*numel")
#: What of a parameter decides that its gradient is not reduced.
_SHAPES = frozenset(["dim", "ndim", "is_sparse", "numel", "ndimension"])


#: Packages that exchange nothing between ranks.
_PLAIN = word_set(
    "torch torchvision numpy os sys math random time argparse tqdm json typing dataclasses collections functools "
    "itertools pathlib logging datetime contextlib PIL pandas sklearn copy re __future__"
)


#: Functions of torch.distributed that send no gradient.
_HARMLESS = frozenset(
    D + name
    for name in (
        "init_process_group",
        "destroy_process_group",
        "is_initialized",
        "is_available",
        "is_nccl_available",
        "get_rank",
        "get_world_size",
        "get_backend",
        "new_group",
        "broadcast",
        "broadcast_object_list",
        "barrier",
        "monitored_barrier",
    )
)


class Training(NamedTuple):
    """A function with a backward pass before a step of an optimizer."""

    backward: SourceCall
    step: SourceCall
    #: the reductions of gradients in the same function: the call, and the collective that it makes
    reductions: tuple[tuple[SourceCall, SourceCall], ...]


@cached
def trainings(program: Program) -> list[Training]:
    """Return where a script trains without a wrapper."""
    found = []
    for step in program.calls_named("step"):
        if not is_optimizer(step) or not _is_by_hand(program, step.file):
            continue
        rows = calls_in(program, (step.file, step.scope))
        backward = [
            row
            for row in rows
            if is_backward(row)
            and row.number < step.number
            and row.loops == step.loops
            and not program.excludes(row, step)
        ]
        if not backward:
            continue
        reductions = tuple((row, reduced) for row in rows if (reduced := reduction_of(program, row)) is not None)
        found.append(Training(backward[-1], step, reductions))
    return found


@cached
def _is_by_hand(program: Program, file: int) -> bool:
    """Return whether nothing but the calls of a script can average gradients."""
    files = set(program.component(file))
    return not any(wrap.call.file in files for wrap in wraps(program, *_WRAPPERS)) and not any(
        _OTHER_WAYS.search(program.index.files[one].text) for one in files
    )


@probe(rules.DC758)
def gradients_are_averaged_by_hand(program: Program) -> Iterator[Finding]:
    """A script without a wrapper averages all gradients once, between the backward pass and the step."""
    for training in program.table(trainings):
        found = _too_late(training) or _summed(program, training) or _divided_twice(program, training)
        found = found or _never(program, training)
        if found is not None:
            row, message, fix = found
            yield row.found(
                rules.DC758,
                message,
                fix=fix,
                severity=row.milder_in_tests(rules.DC758),
                step=training.step.as_step(),
            )
    yield from _some_parameters(program)
    yield from _divided_after_wrapper(program)


_Found = tuple[SourceCall, str, str]


def _too_late(training: Training) -> _Found | None:
    """Return what is wrong where all reductions follow the step that should use them."""
    step, reductions = training.step, training.reductions
    if not reductions or any(
        row.number < step.number or row.loops[: len(step.loops)] != step.loops or step.program.excludes(row, step)
        for row, _ in reductions
    ):
        return None
    # a step that follows uses them
    if any(
        row.method == "step" and row.number > reductions[0][0].number and is_optimizer(row)
        for row in calls_in(step.program, (step.file, step.scope))
    ):
        return None
    row = reductions[0][0]
    return (
        row,
        f"`{row.text()}` reduces the gradients after `{step.text()}` in {step.line_name} has used them",
        f"reduce between the backward pass and {step.line_name}",
    )


def _between(training: Training) -> list[tuple[SourceCall, SourceCall]]:
    return [one for one in training.reductions if training.backward.number < one[0].number < training.step.number]


def _is_sum(call: SourceCall) -> bool:
    return not call.gives(1, "op") or call.argument_text(1, "op").endswith("SUM")


def _summed(program: Program, training: Training) -> _Found | None:
    """Return what is wrong where gradients are added up and nothing divides them."""
    reduced = _between(training)
    backward = training.backward
    if not reduced or not all(_is_sum(call) and call.is_to(D + "all_reduce") for _, call in reduced):
        return None
    if _may_scale(program, training.step.file):
        return None
    if backward.receiver_term < 0 or not is_mean(program, backward.file, backward.receiver_term):
        return None
    call = reduced[0][1]
    return (
        call,
        f"`{call.text()}` adds up the gradients of all ranks, and nothing divides them: each step is longer by the "
        "number of ranks",
        "divide by dist.get_world_size() after the reduction",
    )


@cached
def _may_scale(program: Program, file: int) -> bool:
    """Return whether a component divides or multiplies gradients, or anything by the number of ranks."""
    files = set(program.component(file))
    if any(_SCALES.search(program.index.files[one].text) for one in files):
        return True
    for one in files:
        for term in program.terms[one]:
            if term[0] == "o" and term[1] in _OPERATORS and _scales(program, one, term[2:4]):
                return True
    return any(
        row.method in _METHODS and _scales(program, row.file, (row.receiver_term, *row.argument_terms))
        for row in program.rows("call", files)
        if isinstance(row, SourceCall)
    )


def _scales(program: Program, file: int, operands: Iterable[int]) -> bool:
    return any(
        is_gradient(program, file, operand) or program.evaluator.value(file, operand).has(Kind.WORLD_SIZE)
        for operand in operands
        if operand >= 0
    )


def _divided_twice(program: Program, training: Training) -> _Found | None:
    """Return what is wrong where the loss is divided by the number of ranks, and the gradients are as well."""
    backward = training.backward
    if backward.receiver_term < 0:
        return None
    scaled = scaling_of(program, backward.file, backward.receiver_term)
    if scaled is None or scaled[0] != "/":
        return None
    for _, call in _between(training):
        divided = _division(program, call)
        if divided is not None:
            return (
                backward,
                f"the loss is divided by the world size before `{backward.text()}`, and the gradients are again in "
                f"{divided.line_name}",
                "divide the gradients only",
            )
    return None


def _division(program: Program, call: SourceCall) -> EventRow | None:
    """Return where the gradients of a reduction are divided by the number of ranks."""
    if call.argument_text(1, "op").endswith("AVG"):
        return call
    for row in program.rows_of(call.file, call.scope):
        if row.number > call.number and _divides_gradient(program, row):
            return row
    return None


def _divides_gradient(program: Program, row: EventRow) -> bool:
    """Return whether a statement divides the gradient of a parameter by the number of ranks, in place."""
    if isinstance(row, SourceCall):
        return (
            row.method in ("div_", "divide_", "true_divide_")
            and is_gradient(program, row.file, row.receiver_term)
            and (given := row.argument(0)) is not None
            and given.only(Kind.WORLD_SIZE)
        )
    if row.kind != "attribute" or row.payload[1] != "grad":
        return False
    term = row.terms[row.payload[2]]
    return term[0] == "o" and term[1] == "/" and row.term_value(term[3]).only(Kind.WORLD_SIZE)


def _never(program: Program, training: Training) -> _Found | None:
    """Return what is wrong where ranks train on parts of the data, and exchange nothing after the start."""
    step = training.step
    files = set(program.component(step.file))
    if training.reductions or not any(call.file in files for call in program.calls_to(D + "init_process_group")):
        return None
    if not any(call.file in files for call in program.calls_to(SAMPLER)):
        return None
    made = [
        row
        for row in program.rows("call", files)
        if isinstance(row, SourceCall) and any(target.startswith(D) for target in row.targets)
    ]
    if any(not _HARMLESS.issuperset(call.targets) for call in made):
        return None
    if any(call.is_to(*COLLECTIVES) and call.loops and _is_in_training(call, step) for call in made):
        return None
    if step.own_reached_by.certainty != step.entry.certainty or _may_communicate(program, files):
        return None
    return (
        step,
        f"no call averages the gradients that `{step.text()}` uses: each rank trains a model of its own on its part of "
        "the data",
        "wrap the model in DistributedDataParallel",
    )


def _is_in_training(call: SourceCall, step: SourceCall) -> bool:
    return (call.file, call.scope) == (step.file, step.scope) and bool(set(call.loops) & set(step.loops))


def _may_communicate(program: Program, files: set[int]) -> bool:
    """Return whether files use packages that may communicate: others than torch's own and those of plain data."""
    names = {name.partition(".")[0] for file in files for name in program.imports(file)}
    own = {part for file in files for part in re.split(r"[/.\\]", program.index.files[file].path)}
    return not names <= _PLAIN | own


def _some_parameters(program: Program) -> Iterator[Finding]:
    """A loop that reduces gradients skips parameters by their shape."""
    for call in program.calls_to(D + "all_reduce"):
        if not call.loops or not is_gradient(program, call.file, call.argument_term(0, "tensor")):
            continue
        if not _is_by_hand(program, call.file) or not any(
            reduced == call for training in program.table(trainings) for _, reduced in training.reductions
        ):
            continue
        loop = call.loops[-1][0]
        others = [
            row
            for row in program.calls_to(D + "all_reduce", D + "broadcast", D + "all_gather", D + "reduce")
            if row != call and row.file in set(program.component(call.file))
        ]
        if others:
            continue
        for number, node in call.blocks:
            if number <= loop or not (node[1] == "if" or node[1] == "exit:continue"):
                continue
            if _is_by_shape(program, call, node[2]):
                yield call.found(
                    rules.DC758,
                    f"`{call.text()}` omits parameters by their shape in {program.line_name(call.file, node[4])}: "
                    "their gradients stay those of each rank",
                    fix="reduce the gradients of all parameters",
                    severity=call.milder_in_tests(rules.DC758),
                )
                break
            if _holds_for_no_parameter(call, node):
                yield call.found(
                    rules.DC758,
                    f"`{call.text()}` never runs: the type of a parameter is torch.nn.Parameter, and the test in "
                    f"{program.line_name(call.file, node[4])} holds for none. Each rank steps with its own gradients",
                    fix="drop the test",
                    severity=call.milder_in_tests(rules.DC758),
                )
                break


def _holds_for_no_parameter(call: SourceCall, node: Block) -> bool:
    """Return whether a condition tests a parameter of a model for the exact type of other tensors."""
    terms = call.terms
    test = terms[node[2]]
    if test[0] != "=" or test[1] not in (("is", "==") if node[3] else ("is not", "!=")) or terms[test[2]][0] != "c":
        return False
    _, function, given, *_ = terms[test[2]]
    if len(given) != 1 or terms[given[0]][0] != "e" or call.term_text(function) != "type":
        return False
    return (
        call.term_value(test[3]).named("torch.Tensor") is not None
        and call.term_text(terms[given[0]][1]).endswith(".parameters()")
        and given[0] in parts(call.program, call.file, call.argument_term(0, "tensor"))
    )


def _is_by_shape(program: Program, call: SourceCall, condition: int) -> bool:
    """Return whether a condition chooses among parameters by their shape; those without elements need no reduction."""
    if condition < 0 or _EMPTY.search(call.term_text(condition)):
        return False
    terms = call.terms
    return any(
        terms[number][0] == "a" and terms[number][2] in _SHAPES for number in parts(program, call.file, condition)
    )


def _divided_after_wrapper(program: Program) -> Iterator[Finding]:
    """Gradients that DDP has averaged are divided by the number of ranks."""
    known = wraps(program, "ddp")
    for wrap in known:
        files = set(program.component(wrap.call.file))
        if any(_OTHER_WAYS.search(program.index.files[file].text) for file in files):
            continue
        if any(call.file in files for call in program.calls_to(*COLLECTIVES) if not call.is_to(D + "barrier")):
            continue
        for file in files:
            for row in program.rows("call", {file}):
                yield from _divided(program, row)
            for row in program.rows("attribute", {file}):
                yield from _divided(program, row)
        break


def _divided(program: Program, row: EventRow) -> Iterator[Finding]:
    if _divides_gradient(program, row):
        yield row.found(
            rules.DC758,
            f"`{row.text()}` divides gradients by the number of ranks, and DDP has averaged them already",
            fix="drop the division",
            severity=row.milder_in_tests(rules.DC758),
        )


@probe(rules.DC711)
def reduced_copy_of_gradient_is_used(program: Program) -> Iterator[Finding]:
    """A copy of a gradient that is reduced is written back, or read."""
    for call in program.calls_to(D + "all_reduce"):
        term = call.argument_term(0, "tensor")
        if term < 0 or call.use != "drop" or not _is_copy_of_gradients(program, call, term):
            continue
        if _is_read(program, call, term) or not _is_by_hand(program, call.file):
            continue
        yield call.found(
            rules.DC711,
            f"`{call.text()}` reduces a copy of the gradients that nothing reads: each rank steps with its own",
            fix="reduce the gradient itself, or copy the result back: parameter.grad.copy_(…)",
            severity=Severity.INFO if program.is_test(call.file) else Severity.WARNING,
        )


def _is_copy_of_gradients(program: Program, call: SourceCall, term: int) -> bool:
    copy = copy_of(program, call, term)
    return copy is not None and any(
        call.terms[number][0] == "a" and call.terms[number][2] == "grad"
        for base in copy.bases
        for number in parts(program, call.file, base)
    )


def _is_read(program: Program, call: SourceCall, term: int) -> bool:
    """Return whether anything may read a tensor after a call, but for operations in place on it.

    What keeps it before the call, or a view of it, may be read as well.
    """
    if call.terms[term][0] == "a":
        return True
    own = set(passed_on(program, call.file, term))
    for row in program.rows_of(call.file, call.scope):
        used = [root for root in payload_terms(row) if root >= 0 and own.intersection(parts(program, call.file, root))]
        if not used or row.number == call.number:
            continue
        if row.number < call.number and row.kind in ("bind", "call") and own.issuperset(used):
            continue  # it is made, and gets its name
        if row.kind == "bind" and row.terms[row.payload[1]][0] == "o" and own & {row.terms[row.payload[1]][2]}:
            own.update(passed_on(program, call.file, row.payload[1]))
        elif not (isinstance(row, SourceCall) and row.use == "drop" and row.receiver_term in own and _in_place(row)):
            return True
    return False


def _in_place(call: SourceCall) -> bool:
    return call.method.endswith("_")
