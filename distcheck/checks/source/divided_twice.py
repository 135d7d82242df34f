"""Loaders whose sampler divides the data among ranks, and that Accelerate divides once more (DC770)."""

from __future__ import annotations

from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding
from distcheck.core.registry import probe

from . import call_paths, path_values
from .loader_loops import SAMPLER, loaders_in
from .program import Program, SourceCall
from .values import Kind

_PREPARES = ("accelerate.Accelerator.prepare", "accelerate.Accelerator.prepare_data_loader")


@probe(rules.DC770)
def data_is_divided_once(program: Program) -> Iterator[Finding]:
    """A loader that Accelerate prepares has no sampler that divides the data already."""
    done = set()
    for prepare in program.calls_to(*_PREPARES):
        for term in prepare.argument_terms:
            for place in loaders_in(program, prepare.term_value(term)):
                loader = SourceCall(program, *place)
                sampler = _dividing(program, loader)
                if sampler is None or loader in done or program.excludes(loader, prepare):
                    continue
                done.add(loader)
                path = call_paths.path_of_all_ranks(program, prepare)
                if path is None or path_values.in_tests(path):
                    continue
                yield loader.found(
                    rules.DC770,
                    f"this loader has a DistributedSampler ({sampler.line_name}), and Accelerate divides it again in "
                    f"{prepare.place}: each rank gets 1/N of its 1/N of the data",
                    fix="drop the sampler and give the loader shuffle=True: prepare() divides the batches among ranks",
                    basis=(path.certainty,),
                    flow=[sampler.as_step(), loader.as_step(), prepare.as_step()],
                )


def _dividing(program: Program, loader: SourceCall) -> SourceCall | None:
    """Return the DistributedSampler of a loader, where each sampler that it may have is one or None."""
    value = loader.argument(3, "sampler")
    if value is None or loader.has_star:
        return None
    atoms = [atom for atom in value if not (atom.kind == Kind.CONST and atom.const is None)]
    made = [program.call_of(atom) for atom in atoms if atom.kind == Kind.RESULT and atom.const == SAMPLER]
    if not made or len(made) != len(atoms):
        return None
    first = made[0]
    return None if first is None or first.constant(1, "num_replicas") == 1 else first
