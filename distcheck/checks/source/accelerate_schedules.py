"""Schedules that Accelerate goes through once for each process, and whose length counts the steps of all (DC765)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding, Severity
from distcheck.core.registry import probe

from . import call_paths, path_values
from .program import Program, SourceCall
from .values import Kind

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
_COUNTED = re.compile(r"process|world|rank|\blen\(|ceil|/")


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
