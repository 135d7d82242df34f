"""Data of an evaluation: repeated samples (DC734), and ranks that all evaluate everything (DC732)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from distcheck import rules
from distcheck.core.model import Finding, Severity
from distcheck.core.registry import probe

from . import call_paths
from .loader_loops import (
    LOADERS,
    SAMPLER,
    LoaderLoop,
    calls_within,
    for_blocks,
    loops_at,
    loops_over_loaders,
    training_loops,
)
from .models import without_gradients
from .program import EventRow, Program, SourceCall
from .samplers import loader_samplers
from .source_text import last_name
from .undivided_data import OTHER_DIVISIONS, RANK_WORDS, data_set_of, is_divided, wraps_somewhere
from .values import Certainty


@probe(rules.DC734)
def evaluation_is_not_padded(program: Program) -> Iterator[Finding]:
    """An evaluation does not count the items that a sampler repeats to make all ranks even."""
    loaders = list(program.calls_to(*LOADERS))
    for sampler in program.calls_to(SAMPLER):
        if sampler.constant(3, "shuffle") is not False or sampler.constant(5, "drop_last", False) is not False:
            continue
        own = {
            (loader.file, loader.number)
            for loader in loaders
            if (sampler.file, sampler.number) in loader_samplers(program, loader)
        }
        if any(not own.isdisjoint(loop.loaders) for loop in loops_over_loaders(program)):
            continue
        loops = [loop for loop in program.table(evaluations) if not own.isdisjoint(loop.loaders)]
        if not loops or any(_cuts_repeats(program, loop) for loop in loops):
            continue
        yield sampler.found(
            rules.DC734,
            "this sampler pads the evaluation set with repeated items so that all ranks get the same number: they are "
            "counted twice",
            fix="gather the results and cut them to len(dataset), or let each rank read "
            "Subset(dataset, range(rank, len(dataset), world_size))",
            flow=[f"{program.place(one.file, one.line)}: the evaluation" for one in loops],
        )


def evaluations(program: Program) -> Iterator[LoaderLoop]:
    """Yield the loops over loaders that don't train, in functions that switch gradients off."""
    files = {call.file for call in program.calls_named("no_grad", "inference_mode", "eval")}
    for file in sorted(files):
        for number, scope, node, _ in for_blocks(program, file):
            yield from loops_at(program, file, scope, number, node, trains=False)


def _cuts_repeats(program: Program, loop: LoaderLoop) -> bool:
    """Return whether the function of an evaluation cuts something to a length, or passes over what is beyond one."""
    for row in program.rows_of(*loop.function):
        around = [number for number, _ in row.blocks]
        if row.kind == "exit" and loop.block in around[:-1] and _is_beyond_a_length(row):
            return True
        if isinstance(row, SourceCall) and row.method == "gather_for_metrics":
            return True
        if row.kind in ("return", "bind") and row.line > loop.line:
            term = row.payload[-1]
            parts: tuple[Any, ...] = row.terms[term] if term >= 0 else ("-",)
            if parts[0] == "s" and row.terms[parts[2]][0] in (":", "-"):
                return True
    return False


def _is_beyond_a_length(row: EventRow) -> bool:
    """Return whether a turn of a loop ends where an index is not below a length."""
    _, kind, term, polarity, _, _ = row.blocks[-1][1]
    if row.payload[0] not in ("continue", "break") or kind != "if" or not polarity:
        return False
    test = row.terms[term]
    if test[0] != "=" or test[1] not in (">=", ">", "<=", "<"):
        return False
    return last_name(row.terms, test[3 if test[1] in (">=", ">") else 2]) == "len"


@probe(rules.DC732)
def each_rank_evaluates_its_part(program: Program) -> Iterator[Finding]:
    """An evaluation that all ranks run gives each of them its part of the data."""
    loops = program.table(evaluations)
    if not loops:
        return
    trained = {made for loop in program.table(training_loops) for made in loop.loaders}
    for loader in program.calls_to(*LOADERS):
        made = (loader.file, loader.number)
        if loader.has_star or made in trained or program.is_test(loader.file) or is_divided(program, loader):
            continue
        loop = next((one for one in loops if made in one.loaders and _evaluates_all(program, loader, one)), None)
        if loop is not None:
            yield loader.found(
                rules.DC732,
                "every rank evaluates all of this data, so more ranks do not make it faster",
                fix="give the loader `sampler=DistributedSampler(data, shuffle=False)` and add up what all ranks find, "
                "or evaluate on one rank, without the wrapper",
                severity=Severity.INFO,
                evaluated_at=f"{program.place(loop.file, loop.line)}",
            )


def _evaluates_all(program: Program, loader: SourceCall, loop: LoaderLoop) -> bool:
    """Return whether all ranks of a wrapped model certainly run a loop without gradients over the same data."""
    body = [
        call for call in calls_within(program, *loop[:3]) if call.method != "print" and without_gradients(program, call)
    ]
    if not body or RANK_WORDS.search("\n".join(program.lines(loop.file)[loop.line - 1 : loop.end_line])):
        return False
    made, step = call_paths.path_of_all_ranks(program, loader), call_paths.path_of_all_ranks(program, body[0])
    if made is None or step is None or not made.certainty == step.certainty == Certainty.PROVEN:
        return False
    files = call_paths.related(program, step.root[0])
    if any(program.imports_from(file, *OTHER_DIVISIONS) for file in files) or not wraps_somewhere(program, files):
        return False
    return not data_set_of(program, loader, made, loader.argument_term(0, "dataset")).excused
