"""Schedules that Accelerate goes through once for each process: their length counts the steps of all, and a step for
each epoch is one for each process (DC765).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding, Severity
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe

from . import call_paths, path_values, rank_dependence
from .models import calls_in, is_backward
from .program import Program, SourceCall
from .source_text import last_name
from .values import PARTIAL, Kind

_PREPARE = "accelerate.Accelerator.prepare"
#: Makers of schedules by their last name: where their length stands among the arguments.
_LENGTHS = {
    "CosineAnnealingLR": (1, "T_max"),
    "OneCycleLR": (2, "total_steps"),
    "PolynomialLR": (1, "total_iters"),
    "get_linear_schedule_with_warmup": (2, "num_training_steps"),
    "get_cosine_schedule_with_warmup": (2, "num_training_steps"),
    "get_cosine_with_hard_restarts_schedule_with_warmup": (2, "num_training_steps"),
    "get_polynomial_decay_schedule_with_warmup": (2, "num_training_steps"),
    "get_scheduler": (3, "num_training_steps"),
}
_LIBRARIES = ("torch.optim.lr_scheduler.", "transformers.", "diffusers.optimization.")
#: The head of a loop is shorter; a longer line would cost the square of its length.
_LONGEST_LINE = 400
#: A length with one of these is the sum over the processes, or depends on the data of one.
_COUNTED = lazy(r"process|world|rank|\blen\(|ceil|/")
#: Last names of what makes a scheduler.
_SCHEDULES = lazy(r"(?<!Constant)LR$|LROnPlateau$|^get_(?!constant_schedule$)\w*schedule")
#: What a schedule for epochs is made with, if it counts the processes itself.
_PER_PROCESS = lazy(r"process|world|gpu|rank", re.IGNORECASE)


@probe(rules.DC765)
def schedules_count_the_steps_of_all_processes(program: Program) -> Iterator[Finding]:
    """The length of a schedule that Accelerate steps is the number of steps times the number of processes."""
    for prepare in program.calls_to(_PREPARE):
        for term in prepare.term[2]:
            for atom in prepare.term_value(term):
                made = program.call_of(atom) if atom.kind == Kind.RESULT else None
                if made is not None and made.file == prepare.file and made.method in _LENGTHS:
                    yield from _too_short(program, made, prepare)


def _too_short(program: Program, made: SourceCall, prepare: SourceCall) -> Iterator[Finding]:
    position, name = _LENGTHS[made.method]
    length = made.argument_text(position, name)
    if not any(target.startswith(_LIBRARIES) for target in made.targets) or not length:
        return
    last = length.rsplit(".", 1)[-1]
    if not last.isidentifier() or _COUNTED.search(length) or _is_computed(program, made.file, last):
        return
    if not _ends_a_loop(program, made.file, last) or not _steps_for_each_process(prepare):
        return
    path = call_paths.path_of_all_ranks(program, made)
    if path is None or path_values.in_tests(path):
        return
    yield made.found(
        rules.DC765,
        "Accelerate steps a prepared scheduler once for each process: this schedule ends after "
        f"{length} / num_processes steps of the loop",
        fix=f"multiply the length: {name}={length} * accelerator.num_processes; or do not prepare the scheduler",
        basis=(path.certainty,),
        severity=Severity.WARNING,
        flow=[made.as_step(), prepare.as_step()],
    )


@probe(rules.DC765)
def schedules_of_epochs_are_not_prepared(program: Program) -> Iterator[Finding]:
    """A scheduler that makes one step for each epoch is not prepared: Accelerate makes one for each process."""
    made: dict[SourceCall, SourceCall] = {}
    for prepare in program.calls_to(_PREPARE):
        if _steps_for_each_process(prepare):
            made |= {one: prepare for term in prepare.term[2] for one in _schedules_in(program, prepare, term)}
    steps: dict[SourceCall, list[SourceCall]] = {}
    for call in program.calls_named("step") if made else ():
        of = {program.call_of(inner) for atom in call.receiver for inner in (*atom.of, atom)}
        for one in of & made.keys():
            if one is not None:
                steps.setdefault(one, []).append(call)
    for schedule, calls in steps.items():
        first = calls[0]
        if not all(_ends_an_epoch(program, call) for call in calls) or _counts_processes(program, schedule):
            continue
        path = call_paths.path_of_all_ranks(program, first)
        if path is None or path_values.in_tests(path):
            continue
        yield first.found(
            rules.DC765,
            f"Accelerate prepared this scheduler ({made[schedule].place}), and steps it once for each process: one "
            "epoch is num_processes steps of the schedule",
            fix="do not prepare the scheduler, or create the Accelerator with step_scheduler_with_optimizer=False",
            basis=(path.certainty,),
            severity=Severity.WARNING,
            flow=[schedule.as_step(), made[schedule].as_step(), first.as_step()],
        )


def _schedules_in(program: Program, prepare: SourceCall, term: int) -> Iterator[SourceCall]:
    """Yield the calls that made the scheduler that is prepared here, if it can be nothing else."""
    value = prepare.term_value(term)
    made = [program.call_of(atom) for atom in value if str(atom.const).startswith(_LIBRARIES)]
    if len(made) == len(value.atoms):
        yield from (one for one in made if one is not None and _SCHEDULES.search(one.method))


def _ends_an_epoch(program: Program, call: SourceCall) -> bool:
    """Return whether a step of a scheduler comes once for each pass through a loader, on all ranks."""
    if not call.loops or call.own_reached_by.who in PARTIAL:
        return False
    loop = call.loops[-1][0]
    for row in call.rows_in(loop):
        if not isinstance(row, SourceCall) or program.excludes(row, call):
            continue
        if _is_pass(program, row, loop):
            return True
        if any(_is_pass(program, inner, -1) for one in program.functions(row) for inner in calls_in(program, one)):
            return True
    return False


def _is_pass(program: Program, backward: SourceCall, outer: int) -> bool:
    """Return whether a loop inside of another one, which is no count, makes a training step for each of its items."""
    if not is_backward(backward):
        return False
    inner = [
        term for number, term in backward.loops if number > outer and program.blocks[backward.file][number][1] == "for"
    ]
    steps = (call for call in program.calls_named("step") if (call.file, call.scope) == (backward.file, backward.scope))
    if not inner or not any(call.loops[-1:] == backward.loops[-1:] for call in steps):
        return False  # the loop accumulates gradients for one step
    return not any(
        backward.terms[number][0] == "c" and last_name(backward.terms, backward.terms[number][1]) in ("range", "trange")
        for number in program.subterms(backward.file, inner[0], names=False)
    )


def _counts_processes(program: Program, schedule: SourceCall) -> bool:
    """Return whether what a scheduler is made with depends on the number of processes, or may."""
    return any(
        _PER_PROCESS.search(rank_dependence.names_in(schedule, term))
        or any(
            _PER_PROCESS.search("\n".join(program.lines(file)[scope.line - 1 : scope.end_line]))
            for atom in schedule.term_value(term)
            if atom.kind == Kind.FUNCTION
            for file, scope in ((atom.const[0], program.scope(atom.const)),)
        )
        for term in schedule.argument_terms
    )


def _is_computed(program: Program, file: int, name: str) -> bool:
    """Return whether a file may compute a number itself, from the length of a loader or the number of processes."""
    assigned = re.compile(rf"\b{re.escape(name)}\s*(?:[-+*/]|//)?=(?!=)(.*)")
    for line in program.lines(file):
        match = assigned.search(line)
        if match is not None and (_COUNTED.search(match.group(1)) or "*" in match.group(1)):
            return True
    return False


def _ends_a_loop(program: Program, file: int, name: str) -> bool:
    """Return whether the loop over the steps of the optimizer ends at a number."""
    ends = re.compile(
        rf"\bwhile\b.*<=?\s*(?:\w+\.)*{re.escape(name)}\b|\brange\((?:[^()]*,\s*)?(?:\w+\.)*{re.escape(name)}\s*\)"
        rf"|\bif\b.*>=\s*(?:\w+\.)*{re.escape(name)}\b"
    )
    return any(len(line) <= _LONGEST_LINE and ends.search(line) for line in program.lines(file))


def _steps_for_each_process(prepare: SourceCall) -> bool:
    """Return whether the Accelerator of a call is not set up to divide batches, or to leave schedulers alone."""
    for atom in prepare.receiver:
        made = prepare.program.call_of(atom)
        if made is None or made.has_star:
            return False
        if made.gives(None, "split_batches") or made.gives(None, "dataloader_config"):
            return False
        if made.gives(None, "step_scheduler_with_optimizer"):
            return False
    return bool(prepare.receiver.atoms)
