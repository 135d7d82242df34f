"""Metrics that are not reduced, and yet decide something (DC739)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import Any

from distcheck import rules
from distcheck.core.model import Finding, Severity
from distcheck.core.patterns import lazy
from distcheck.core.rank_evidence import ONLY_LAUNCHED, SCRIPTS
from distcheck.core.registry import probe

from . import call_paths
from .collective_sequences import Sequences, sequences_of
from .device_uses import run_together
from .evaluation_data import evaluations
from .loader_loops import LOADERS, SAMPLER, LoaderLoop, calls_within, loaders_in, training_loops
from .models import trains, without_gradients
from .program import EventRow, Function, Program, SourceCall
from .samplers import loader_samplers
from .several_ranks import signs
from .source_text import last_name
from .values import FEW, Kind
from .vocabulary import word_set, words

#: Names of what combines values of several ranks, and of libraries that do so by themselves.
_COMBINES = lazy(
    r"reduce(?!LR)|gather|sync|aggregate|all_?to_?all|across|broadcast|(?<!c)collect(?!ion)|\bdist_|distributed_(mean|sum|avg)",
    re.IGNORECASE,
)
#: Names that contain one of these words, and combine no values.
_COMBINES_NOTHING = lazy(r"sync_?batch_?norm|sync_?bn|no_sync|broadcast_(tensors|to|shapes)", re.IGNORECASE)
#: Calls with such names within one process.
_LOCAL = words("torch.cuda.synchronize gc.collect functools.reduce torch.gather einops.reduce")
_COMBINING_LIBRARIES = ("torchmetrics", "ignite", "evaluate", "detectron2", "mmengine", "mmcv", "composer", "horovod")
_LIGHTNING = ("lightning", "pytorch_lightning")
_SAVES = lazy(r"(^|_)save|checkpoint", re.IGNORECASE)


#: Methods that collect the results of single steps.
_COLLECTS = word_set("update append extend add add_ add_batch")
#: Calls that report a result.
_SHOWS = lazy(r"(print|info|log|log_\w+|report\w*|add_scalars?|write)$")


#: What divides the data of loaders that it gets, and what only the main process does with its methods.
_PREPARES = ("accelerate.Accelerator.prepare", "accelerate.Accelerator.prepare_data_loader")
_MAIN_SHOWS = ("accelerate.Accelerator.log", "accelerate.Accelerator.print", "accelerate.logging.get_logger.info")


class _Decides(Enum):
    """What a metric decides, the worst first."""

    COLLECTIVE = "whether this rank makes the collective"
    EXIT = "whether this rank leaves the loop"
    RATE = "the learning rate of this rank"
    SAVE = "which model is saved"
    SHOWN = "what one rank reports as the result"


_ORDER = list(_Decides)


@probe(rules.DC739)
def metrics_of_all_ranks_decide(program: Program) -> Iterator[Finding]:
    """A metric of a part of the data decides nothing before the parts of all ranks are combined."""
    for loop, decides, row in program.table(_worst_decisions):
        at = program.place(loop.file, loop.line)
        yield row.found(
            rules.DC739,
            f"nothing reduces the metric of the evaluation at {at}, where each rank sees only "
            f"its part of the data, and here it decides {decides.value}",
            fix="add up sums and counts in tensors, all_reduce both on all ranks after that loop, and divide then",
            severity=Severity.INFO if decides in (_Decides.SAVE, _Decides.SHOWN) else None,
            flow=[
                f"{at}: each rank evaluates its part",
                f"{row.place}: the metric decides",
            ],
            **_launches(program, loop),
        )


def _launches(program: Program, loop: LoaderLoop) -> dict[str, Any]:
    """Return the evidence that the launch lines of a program of an Accelerator decide: it may run as one process."""
    if loop.loaders <= set(program.table(_sampled)):
        return {}
    found = signs(next(row for row in program.rows_of(*loop.function) if row.line >= loop.line))
    return {ONLY_LAUNCHED: True, SCRIPTS: found[SCRIPTS]} if found else {}


def exits_by_metrics(program: Program) -> list[EventRow]:
    """Return the exits from loops that DC739 reports."""
    return [row for _, decides, row in program.table(_worst_decisions) if decides is _Decides.EXIT]


def _worst_decisions(program: Program) -> Iterator[tuple[LoaderLoop, _Decides, EventRow]]:
    """Yield the evaluations whose metrics nothing reduces, with the worst decision by them in each function."""
    divided = set(_divided(program))
    if not divided:
        return
    sequences = sequences_of(program)
    trained = {(loop.file, loop.block) for loop in program.table(training_loops)}
    for loop in program.table(evaluations):
        if not loop.loaders <= divided or (loop.file, loop.block) in trained or program.is_test(loop.file):
            continue
        if not _evaluates(program, loop) or _is_combined(program, loop.function):
            continue
        worst: dict[Function, tuple[_Decides, EventRow]] = {}
        for decides, row in _decisions(sequences, loop):
            known = worst.setdefault((row.file, row.scope), (decides, row))
            if _ORDER.index(decides) < _ORDER.index(known[0]):
                worst[row.file, row.scope] = decides, row
        yield from ((loop, *one) for one in worst.values())


def _evaluates(program: Program, loop: LoaderLoop) -> bool:
    """Return whether a loop runs without gradients, or with a model that ``eval()`` has switched before it."""
    if any(without_gradients(program, call) for call in calls_within(program, *loop[:3])):
        return True
    switches = [
        call.method
        for call in program.rows_of(*loop.function)
        if isinstance(call, SourceCall)
        and call.line < loop.line
        and call.method in ("train", "eval")
        and call.receiver_term >= 0
        and call.use == "drop"
    ]
    steps = (call.method == "step" for call in calls_within(program, *loop[:3]))
    return switches[-1:] == ["eval"] and not any(steps)


def _sampled(program: Program) -> Iterator[tuple[int, int]]:
    """Yield the loaders whose sampler gives each rank its part."""
    for loader in program.calls_to(*LOADERS):
        if any(SourceCall(program, *sampler).is_to(SAMPLER) for sampler in loader_samplers(program, loader)):
            yield loader.file, loader.number


def _divided(program: Program) -> Iterator[tuple[int, int]]:
    """Yield the loaders of which each rank sees a part: those with a sampler for it, and those of an Accelerator."""
    yield from program.table(_sampled)
    for call in program.calls_to(*_PREPARES):
        for term in call.argument_terms:
            yield from loaders_in(program, call.term_value(term))


def _is_combined(program: Program, function: Function) -> bool:
    """Return whether anything that may combine the ranks' values runs in an evaluation, or around the calls of it."""
    if program.imports_from(function[0], *_COMBINING_LIBRARIES):
        return True
    functions = set(call_paths.reached_from(program, function))
    for caller in program.callers(function)[:20]:
        if program.imports_from(caller.file, *_COMBINING_LIBRARIES):
            return True
        functions.add((caller.file, caller.scope))
        for row in program.rows_of(caller.file, caller.scope):
            if isinstance(row, SourceCall):
                for inner in program.functions(row):
                    if not trains(program, inner):
                        functions |= call_paths.reached_from(program, inner)
    return any(_combines(row) for one in functions for row in program.rows_of(*one) if isinstance(row, SourceCall))


def _combines(call: SourceCall) -> bool:
    """Return whether the name of a call suggests that it combines values of several ranks."""
    if call.is_to(*_LOCAL) or (call.method == "gather" and _gathers_by_index(call)):
        return False
    # what another call returns has the name of that call, which is judged itself
    is_named = call.receiver_term >= 0 and call.terms[call.receiver_term][0] != "c"
    object_name = last_name(call.terms, call.receiver_term) if is_named else ""
    return any(_COMBINES.search(_COMBINES_NOTHING.sub("", name)) for name in (call.method, object_name))


def _gathers_by_index(call: SourceCall) -> bool:
    """Return whether a call is ``tensor.gather(1, index)``, which selects within one tensor."""
    first = call.argument(0, "dim")
    return first is not None and isinstance(first.constant, int) and call.argument_term(1, "index") >= 0


def _decisions(sequences: Sequences, loop: LoaderLoop) -> Iterator[tuple[_Decides, EventRow]]:
    """Yield what the results of an evaluation decide, in its function and where it is called."""
    program = sequences.program
    inside = {call.payload[0] for call in calls_within(program, *loop[:3])} | set(_collected(program, loop))
    yield from _decided_by(sequences, loop.function, inside, loop.end_line)
    made = [program.event_row(*loader) for loader in loop.loaders]
    for caller in program.callers(loop.function)[:20]:
        # a rank that evaluates alone, and a script that makes other loaders, have all of the data
        if caller.own_reached_by.who in FEW or not any(run_together(caller, one) for one in made):
            continue
        yield from _decided_by(sequences, (caller.file, caller.scope), {caller.payload[0]}, 0)


def _collected(program: Program, loop: LoaderLoop) -> Iterator[int]:
    """Yield the terms of what collects the results of the steps: ``meter.update(loss)``, ``hits[k] += n``."""
    rows = program.rows_of(*loop.function)
    names: dict[int, set[str]] = {}
    for row in rows:
        if row.kind == "bind":
            names.setdefault(row.payload[1], set()).add(row.payload[0])
    for row in rows:
        if all(number != loop.block for number, _ in row.blocks):
            continue
        term = -1
        if row.kind == "store":
            term = row.payload[0]
        elif isinstance(row, SourceCall) and row.method in _COLLECTS and row.use == "drop":
            term = row.receiver_term
        # two names of equal displays are one term: `losses = []`, `names = []`
        if term >= 0 and len(names.get(term, ())) < 2:
            yield term


def _decided_by(
    sequences: Sequences, function: Function, made: set[int], after: int
) -> Iterator[tuple[_Decides, EventRow]]:
    program = sequences.program
    made = set(made)

    def is_made(term: int) -> bool:
        return term >= 0 and not made.isdisjoint(program.subterms(function[0], term, names=False))

    for row in program.rows_of(*function):
        if row.line <= after:
            continue
        by_metric = any(node[1] == "if" and is_made(node[2]) for _, node in row.blocks)
        if isinstance(row, SourceCall):
            given = any(is_made(term) for term in row.argument_terms)
            if row.method == "step" and any(is_made(term) for term in row.term[2][:1]) and _may_be_a_scheduler(row):
                yield _Decides.RATE, row
            elif by_metric and sequences.collective_site(row) is not None:
                yield _Decides.COLLECTIVE, row
            elif _SAVES.search(row.method) and (by_metric or _is_compared(program, row, made)):
                yield _Decides.SAVE, row
            elif given and (row.is_to(*_MAIN_SHOWS) or (_SHOWS.match(row.method) and row.own_reached_by.who in FEW)):
                yield _Decides.SHOWN, row
            elif given:
                # what gets the metric, as an object that stops the training: ``stopper(loss)``, ``record.update(loss)``
                made |= {term for term in (row.term[1], row.receiver_term) if _is_own_object(row, term)}
                if row.method == "update" and row.terms[row.receiver_term][0] == "d":
                    made.add(row.receiver_term)
        elif row.kind == "exit" and row.payload[0] in ("break", "return", "call") and row.loops and by_metric:
            yield _Decides.EXIT, row


#: Names of schedulers of the learning rate.
_SCHEDULER = lazy(r"sch|lr|plateau|decay|anneal|warm|rate", re.IGNORECASE)


def _may_be_a_scheduler(call: SourceCall) -> bool:
    """Return whether an object is a scheduler of torch, or is called like one: others have a method ``step``, too."""
    made = (str(atom.const).rpartition(".")[0] for atom in call.receiver if atom.kind == Kind.RESULT)
    return "torch.optim.lr_scheduler" in made or bool(_SCHEDULER.search(call.receiver_text))


def _is_own_object(call: SourceCall, term: int) -> bool:
    """Return whether a term is an object of a class of the project."""
    return term >= 0 and call.term_value(term).only(Kind.OBJECT)


def _is_compared(program: Program, call: SourceCall, made: set[int]) -> bool:
    """Return whether a call is given the outcome of a comparison with a metric: ``save(state, is_best)``."""
    terms = program.terms[call.file]
    return any(
        terms[number][0] == "=" and not made.isdisjoint(program.subterms(call.file, number, names=False))
        for term in call.argument_terms
        for number in program.subterms(call.file, term, names=False)
    )


#: Hooks of Lightning in which each rank sees its part of the evaluation data.
_HOOKS = word_set("validation_step validation_epoch_end on_validation_epoch_end on_validation_end")
_CALLBACKS = ("ModelCheckpoint", "EarlyStopping")


@probe(rules.DC739)
def monitored_metrics_are_reduced(program: Program) -> Iterator[Finding]:
    """A metric that a callback of Lightning monitors is that of all ranks."""
    monitors: dict[str, SourceCall] = {}
    for call in program.calls_named(*_CALLBACKS):
        given = call.argument(None, "monitor")
        for name in () if given is None or not program.imports_from(call.file, *_LIGHTNING) else given.constants:
            if isinstance(name, str):
                monitors.setdefault(name, call)
    if not monitors:
        return
    for call in program.calls_named("log"):
        name, value = call.argument(0, "name"), call.argument(1, "value")
        if name is None or value is None or not isinstance(name.constant, str) or name.constant not in monitors:
            continue
        if call.function.name not in _HOOKS or call.receiver_text != "self" or call.gives(None, "sync_dist"):
            continue
        if call.has_star or program.is_test(call.file) or not program.imports_from(call.file, *_LIGHTNING):
            continue
        if not value.only(Kind.RESULT, Kind.BATCH, Kind.UNKNOWN, Kind.METHOD, Kind.CONST) or _has_metrics(
            program, call
        ):
            continue
        monitor = monitors[name.constant]
        if not call_paths.related(program, call.file) & call_paths.related(program, monitor.file):
            continue
        yield call.found(
            rules.DC739,
            f"each rank logs {name.constant!r} of its part of the data, without sync_dist=True, and "
            f"{monitor.method} in {monitor.place} decides by it",
            fix="add sync_dist=True: the mean over the ranks is logged; a metric of torchmetrics needs none",
            edits=tuple(edit for edit in (program.argument_edit(call, "sync_dist=True"),) if edit is not None),
            safe=False,
            risk="one more collective at the end of each validation",
            severity=Severity.INFO,
        )


def _has_metrics(program: Program, call: SourceCall) -> bool:
    """Return whether a hook, or what it calls, has something that combines the ranks' values by itself."""
    if program.imports_from(call.file, *_COMBINING_LIBRARIES):
        return True
    owner = program.evaluator.owner_of(call.file, call.scope)
    return any(
        _COMBINES.search(row.method) or row.method in ("compute", "add_state")
        for function in program.methods_of(call.file, owner)
        for row in program.rows_of(*function)
        if isinstance(row, SourceCall)
    )
