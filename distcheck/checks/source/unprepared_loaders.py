"""Loaders that an Accelerator never gets, from which every rank trains on all of the data (DC732)."""

from __future__ import annotations

from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding, Severity
from distcheck.core.registry import probe

from . import call_paths, path_values
from .loader_loops import LOADERS, LoaderLoop, calls_within, loops_over_loaders
from .program import Program, SourceCall
from .undivided_data import DIVIDED_BY_RANK, OTHER_DIVISIONS, RANK_WORDS, data_set_of, is_divided

_PREPARES = ("prepare", "prepare_data_loader", "_prepare_device_mesh", "skip_first_batches")
#: Functions that divide data among processes.
_DIVIDES = ("split_between_processes", "split_dataset_by_node", "shard")


@probe(rules.DC732)
def every_loader_is_prepared(program: Program) -> Iterator[Finding]:
    """A loader that a prepared model is trained from is prepared, too: that divides its data."""
    if not any(True for _ in program.calls_to("accelerate.Accelerator")):
        return
    for loader in program.calls_to(*LOADERS):
        if loader.has_star or is_divided(program, loader) or loader.gives(3, "sampler"):
            continue
        loop = next(
            (one for one in loops_over_loaders(program) if (loader.file, loader.number) in one.loaders and one.certain),
            None,
        )
        if loop is None or len(loop.loaders) != 1 or not _trains_by_an_accelerator(program, loop):
            continue
        made = call_paths.path_of_all_ranks(program, loader)
        if made is None or path_values.in_tests(made) or _may_be_divided(program, loader, made):
            continue
        data = loader.argument_text(0, "dataset") or "the data"
        yield loader.found(
            rules.DC732,
            f"prepare() of the Accelerator does not get this loader, so every rank trains on all of {data}",
            fix="pass the loader to accelerator.prepare() as well, and use what it returns",
            severity=Severity.WARNING,
            flow=[
                *program.flow(made.steps),
                f"{program.place(loop.file, loop.line)}: the loop that trains from it",
            ],
        )


def _trains_by_an_accelerator(program: Program, loop: LoaderLoop) -> bool:
    """Return whether the body of a loop calls ``accelerator.backward(loss)``."""
    return any(
        call.method == "backward" and call.is_to("accelerate.Accelerator.backward")
        for call in calls_within(program, *loop[:3])
    )


def _may_be_divided(program: Program, loader: SourceCall, made: path_values.CallPath) -> bool:
    """Return whether some code may give each rank its part of a loader's data."""
    files = call_paths.related(program, loader.file)
    prepared = list(program.calls_named(*_PREPARES, files=files))
    if not prepared or any(call.has_star for call in prepared):
        return True
    for call in prepared:
        for term in call.argument_terms:
            value = call.term_value(term)
            if any(atom.call == (loader.file, loader.number) for atom in value) or not value.atoms:
                return True
    if any(True for _ in program.calls_named(*_DIVIDES, files=files)):
        return True
    if any(program.imports_from(file, *OTHER_DIVISIONS) for file in files):
        return True
    lines = "\n".join(program.lines(loader.file))
    if (
        "process_index" in lines
        or DIVIDED_BY_RANK.search(lines)
        or RANK_WORDS.search(loader.argument_text(0, "dataset") or "")
    ):
        return True
    return data_set_of(program, loader, made, loader.argument_term(0, "dataset")).excused
