"""Metrics that are not reduced, and yet decide something (DC739)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
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
from .divided_loaders import FABRICS, divided_loaders, of_fabric, prepared, sampled
from .evaluation_data import evaluations
from .loader_loops import LoaderLoop, calls_within, loaders_in, training_loops
from .models import trains, without_gradients
from .program import EventRow, Function, Program, SourceCall, cached
from .several_ranks import signs
from .source_text import last_name
from .term_queries import given_terms
from .values import FEW, Kind, Who
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


#: Functions that pass results on are followed this far.
_DEEPEST = 2
_NAME = lazy(r"[A-Za-z_]\w*")
#: Methods that collect the results of single steps.
_COLLECTS = word_set("update append extend add add_ add_batch")
#: Calls that report a result.
_SHOWS = lazy(r"(print|info|log|log_\w+|report\w*|add_scalars?|write|writerow|dump|to_csv|to_json)$")
#: Functions of projects that do so on one rank, by their names.
_ONE_SHOWS = lazy(
    r"(print|log|info)_?(on_?|at_?)?(rank_?(0|zero)|main(_process)?|master|0)$|(rank_?(0|zero)|main|master)_?(print|log|info)$",
    re.IGNORECASE,
)


#: What only the main process does with its methods.
_MAIN_SHOWS = (
    *("accelerate.Accelerator.log", "accelerate.Accelerator.print", "accelerate.logging.get_logger.info"),
    *(f"{fabric}.{method}" for fabric in FABRICS for method in ("log", "log_dict", "print")),
)


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
        by_fabric = not loop.loaders.isdisjoint(program.table(of_fabric))
        yield row.found(
            rules.DC739,
            f"nothing reduces the metric of the evaluation at {at}, where each rank sees only "
            f"its part of the data, and here it decides {decides.value}",
            fix="add up sums and counts in tensors, all_reduce both on all ranks after that loop, and divide then",
            severity=Severity.INFO if decides in (_Decides.SAVE, _Decides.SHOWN) or by_fabric else None,
            flow=[
                f"{at}: each rank evaluates its part",
                f"{row.place}: the metric decides",
            ],
            **_launches(program, loop),
        )


def _launches(program: Program, loop: LoaderLoop) -> dict[str, Any]:
    """Return the evidence that the launch lines of a program of an Accelerator decide: it may run as one process."""
    launched = set(program.table(prepared)) - set(program.table(sampled))
    if loop.loaders.isdisjoint(launched):
        return {}
    found = signs(next(row for row in program.rows_of(*loop.function) if row.line >= loop.line))
    return {ONLY_LAUNCHED: True, SCRIPTS: found[SCRIPTS]} if found else {}


def exits_by_metrics(program: Program) -> list[EventRow]:
    """Return the exits from loops that DC739 reports."""
    return [row for _, decides, row in program.table(_worst_decisions) if decides is _Decides.EXIT]


def _worst_decisions(program: Program) -> Iterator[tuple[LoaderLoop, _Decides, EventRow]]:
    """Yield the evaluations whose metrics nothing reduces, with the worst decision by them in each function."""
    parts = divided_loaders(program)
    if not parts:
        return
    sequences = sequences_of(program)
    trained = {(loop.file, loop.block) for loop in program.table(training_loops)}
    for loop in program.table(evaluations):
        if loop.loaders.isdisjoint(parts) or (loop.file, loop.block) in trained or program.is_test(loop.file):
            continue
        if not _evaluates(program, loop) or program.imports_from(loop.file, *_COMBINING_LIBRARIES):
            continue
        worst: dict[Function, tuple[_Decides, EventRow]] = {}
        for decides, row in _decisions(sequences, loop, parts):
            known = worst.setdefault((row.file, row.scope), (decides, row))
            if _ORDER.index(decides) < _ORDER.index(known[0]):
                worst[row.file, row.scope] = decides, row
        yield from ((loop, *one) for one in worst.values())


def _evaluates(program: Program, loop: LoaderLoop) -> bool:
    """Return whether a loop runs without gradients, or with a model that ``eval()`` has switched before its end."""
    if any(without_gradients(program, call) for call in calls_within(program, *loop[:3])):
        return True
    switches = [
        call.method
        for call in program.rows_of(*loop.function)
        if isinstance(call, SourceCall)
        and call.line <= loop.end_line
        and call.method in ("train", "eval")
        and call.receiver_term >= 0
        and call.use == "drop"
    ]
    steps = (call.method == "step" for call in calls_within(program, *loop[:3]))
    return switches[-1:] == ["eval"] and not any(steps)


def _is_combined(program: Program, function: Function, made: set[int], block: int = -1) -> bool:
    """Return whether anything that may combine the ranks' values gets a metric, or runs in the loop that finds it."""
    return any(
        _may_combine(row)
        for row in program.rows_of(*function)
        if isinstance(row, SourceCall) and (any(number == block for number, _ in row.blocks) or _is_given(row, made))
    )


def _combines_at_its_end(program: Program, loop: LoaderLoop) -> bool:
    """Return whether the function of an evaluation combines values after it, whatever fills its meters."""
    return not trains(program, loop.function) and any(
        _may_combine(row)
        for row in program.rows_of(*loop.function)
        if isinstance(row, SourceCall) and row.line > loop.end_line
    )


def _may_combine(call: SourceCall) -> bool:
    """Return whether a call, or what it leads to, combines values of several ranks."""
    program = call.program
    return _combines(call) or any(_reaches_a_combination(program, inner) for inner in program.functions(call))


def _is_given(call: SourceCall, made: set[int]) -> bool:
    """Return whether a call gets a metric, as an argument or as its object; without both, whether its name combines."""
    terms = [*call.argument_terms, call.receiver_term]
    if max(terms) < 0:
        return bool(_COMBINES.search(call.method)) and call.method != "synchronize"
    return any(term >= 0 and not made.isdisjoint(call.program.subterms(call.file, term, names=False)) for term in terms)


@cached
def _reaches_a_combination(program: Program, function: Function) -> bool:
    return not trains(program, function) and any(
        isinstance(row, SourceCall) and _combines(row)
        for one in call_paths.reached_from(program, function)
        for row in program.rows_of(*one)
    )


def _combines(call: SourceCall) -> bool:
    """Return whether the name of a call suggests that it combines values of several ranks."""
    if call.is_to(*_LOCAL) or (call.method == "gather" and _gathers_by_index(call)):
        return False
    if call.method == "compute" and call.receiver_term >= 0 and not call.receiver.only(Kind.OBJECT):
        # a metric of a library, which another file may have made
        return True
    # what another call returns has the name of that call, which is judged itself
    is_named = call.receiver_term >= 0 and call.terms[call.receiver_term][0] != "c"
    object_name = last_name(call.terms, call.receiver_term) if is_named else ""
    return any(_COMBINES.search(_COMBINES_NOTHING.sub("", name)) for name in (call.method, object_name))


def _gathers_by_index(call: SourceCall) -> bool:
    """Return whether a call is ``tensor.gather(1, index)``, which selects within one tensor."""
    first = call.argument(0, "dim")
    return first is not None and isinstance(first.constant, int) and call.argument_term(1, "index") >= 0


def _decisions(
    sequences: Sequences, loop: LoaderLoop, parts: set[tuple[int, int]]
) -> Iterator[tuple[_Decides, EventRow]]:
    """Yield what the results of an evaluation decide, in its function and where it is called."""
    program = sequences.program
    collected = set(_collected(program, loop))
    inside = {call.payload[0] for call in calls_within(program, *loop[:3])} | collected
    roots = {_root(program.terms[loop.file], term) for term in collected}
    if _is_combined(program, loop.function, inside | roots, loop.block) or _combines_at_its_end(program, loop):
        return
    everywhere = _of_several_ranks(program, loop.loaders)
    if everywhere and everywhere <= parts:
        yield from _decided_by(sequences, loop.function, inside, loop.end_line)
    filled = _filled(program, loop, inside)
    waiting = [(loop.function, 0)]
    for function, depth in waiting:
        for caller in program.callers(function)[:20]:
            above = (caller.file, caller.scope)
            left = _left_in(caller, function, program.terms[loop.file], roots, filled) if depth == 0 else set()
            given = (_loaders_given(caller, loop) if depth == 0 else None) or everywhere
            if (
                # a rank that evaluates alone, and a script that makes other loaders, have all of the data
                caller.own_reached_by.who in FEW
                or not (given and given <= parts)
                or not any(run_together(caller, program.event_row(*one)) for one in given)
                or program.imports_from(caller.file, *_COMBINING_LIBRARIES)
                or _is_combined(program, above, {caller.payload[0], *left})
            ):
                continue
            yield from _decided_by(sequences, above, {caller.payload[0]}, 0)
            if left:
                yield from _decided_by(sequences, above, _read_from(caller, left, filled), caller.line)
            if depth < _DEEPEST and _returns(program, above, caller.payload[0]) and (above, depth + 1) not in waiting:
                waiting.append((above, depth + 1))


def _of_several_ranks(program: Program, loaders: Iterable[tuple[int, int]]) -> frozenset[tuple[int, int]]:
    """Return the loaders without those that are made only where there is one rank."""
    return frozenset(one for one in loaders if program.event_row(*one).own_reached_by.who != Who.SINGLE)


def _loaders_given(call: SourceCall, loop: LoaderLoop) -> frozenset[tuple[int, int]]:
    """Return the loaders that a call gives the function of an evaluation; empty where they are no arguments."""
    program = call.program
    terms = program.terms[loop.file]
    given = given_terms(call, loop.function)
    walked = program.subterms(loop.file, program.blocks[loop.file][loop.block][2], names=False)
    names = [terms[term][2] for term in walked if terms[term][0] == "p"]
    loaders = (one for name in names if name in given for one in loaders_in(program, call.term_value(given[name])))
    return _of_several_ranks(program, loaders)


def _read_from(call: SourceCall, left: set[int], filled: set[str]) -> set[int]:
    """Return the terms that hold what an evaluation left: attributes of its own object, other objects as a whole."""
    attributes = {
        number
        for number, term in enumerate(call.terms)
        if term[0] == "a" and term[1] == call.receiver_term and term[2] in filled
    }
    return attributes | left - {call.receiver_term}


def _root(terms: list[tuple[Any, ...]], term: int) -> int:
    """Return what a chain of attributes, items and methods begins with: ``log`` for ``log.meters["loss"]``."""
    while terms[term][0] in ("a", "s", "c"):
        term = terms[term][1]
    return term


def _left_in(
    call: SourceCall, function: Function, terms: list[tuple[Any, ...]], roots: set[int], filled: set[str]
) -> set[int]:
    """Return what a call gives an evaluation that keeps its results there: an object, a meter."""
    found = {call.receiver_term} if filled and call.receiver_term >= 0 else set()
    given = given_terms(call, function)
    return found | {given[terms[root][2]] for root in roots if terms[root][0] == "p" and terms[root][2] in given}


def _returns(program: Program, function: Function, term: int) -> bool:
    """Return whether a function returns what one of its calls gives it, or what is made from that."""
    return any(
        row.kind == "return"
        and row.payload[0] >= 0
        and term in program.subterms(function[0], row.payload[0], names=False)
        for row in program.rows_of(*function)
    )


def _filled(program: Program, loop: LoaderLoop, inside: set[int]) -> set[str]:
    """Return the attributes of its object in which an evaluation leaves its results."""
    terms = program.terms[loop.file]
    found = {terms[term][2] for term in inside if terms[term][0] == "a" and _is_self(terms, terms[term][1])}
    return found | {
        row.payload[1]
        for row in program.rows_of(*loop.function)
        if row.kind == "attribute"
        and row.line > loop.end_line
        and _is_self(terms, row.payload[0])
        and not inside.isdisjoint(program.subterms(loop.file, row.payload[2], names=False))
    }


def _is_self(terms: list[tuple[Any, ...]], term: int) -> bool:
    return bool(terms[term][0] == "p" and terms[term][2] == "self")


def _collected(program: Program, loop: LoaderLoop) -> Iterator[int]:
    """Yield the terms of what collects the results of the steps: ``meter.update(loss)``, ``hits[k] += n``."""
    rows = program.rows_of(*loop.function)
    names: dict[int, set[str]] = {}
    for row in rows:
        if row.kind == "bind":
            names.setdefault(row.payload[1], set()).add(row.payload[0])
    found: dict[int, set[str]] = {}
    for row in rows:
        if all(number != loop.block for number, _ in row.blocks):
            continue
        term = -1
        if row.kind == "store":
            term = row.payload[0]
        elif isinstance(row, SourceCall) and row.method in _COLLECTS and row.use == "drop":
            term = row.receiver_term
        if term >= 0:
            line = program.lines(loop.file)[row.line - 1]
            found.setdefault(term, set()).update(_NAME.findall(line)[:1])
    for term, collecting in found.items():
        # names of equal displays are one term: `losses = []`, `names = []`
        if len(names.get(term, ())) < 2 or names[term] <= collecting:
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
        # `if parts:` only tests whether there is anything
        by_metric = any(
            node[1] == "if" and is_made(node[2]) and row.terms[node[2]][0] not in ("l", "d") for _, node in row.blocks
        )
        if isinstance(row, SourceCall):
            given = any(is_made(term) for term in row.argument_terms)
            if row.method == "step" and any(is_made(term) for term in row.term[2][:1]) and _may_be_a_scheduler(row):
                yield _Decides.RATE, row
            elif by_metric and sequences.collective_site(row) is not None:
                yield _Decides.COLLECTIVE, row
            elif _SAVES.search(row.method) and (by_metric or _is_compared(program, row, made)):
                yield _Decides.SAVE, row
            elif given and _is_shown_once(row):
                yield _Decides.SHOWN, row
            elif given:
                # what gets the metric, as an object that stops the training: ``stopper(loss)``, ``record.update(loss)``
                made |= {term for term in (row.term[1], row.receiver_term) if _is_own_object(row, term)}
                if row.method == "update" and row.terms[row.receiver_term][0] == "d":
                    made.add(row.receiver_term)
        elif row.kind == "exit" and row.payload[0] in ("break", "return", "call") and row.loops and by_metric:
            yield _Decides.EXIT, row


def _is_shown_once(call: SourceCall) -> bool:
    """Return whether one rank reports what a call is given."""
    if _SHOWS.match(call.method) and call.own_reached_by.who in FEW:
        return True
    return call.is_to(*_MAIN_SHOWS) or bool(_ONE_SHOWS.match(call.method))


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
