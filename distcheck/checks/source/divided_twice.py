"""Loaders whose sampler divides the data among ranks, and that Accelerate divides once more (DC770)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding
from distcheck.core.patterns import lazy
from distcheck.core.registry import probe

from . import call_paths, path_values
from .divided_loaders import PREPARES
from .loader_loops import SAMPLER, loaders_in
from .program import Program, SourceCall
from .values import Kind

#: Conditions that test whether there are other ranks.
_SEVERAL = lazy(r"process|world|initialized|__main__", re.IGNORECASE)


@probe(rules.DC770)
def data_is_divided_once(program: Program) -> Iterator[Finding]:
    """A loader that Accelerate prepares has no sampler that divides the data already."""
    done = set()
    for prepare in program.calls_to(*PREPARES):
        for term in prepare.argument_terms:
            for place in loaders_in(program, prepare.term_value(term)):
                loader = SourceCall(program, *place)
                sampler = None if loader in done else _dividing(program, loader)
                if sampler is None or program.excludes(loader, prepare):
                    continue
                done.add(loader)
                path = call_paths.path_of_all_ranks(program, prepare)
                made = call_paths.path_of_all_ranks(program, sampler)
                if path is None or made is None or path_values.in_tests(path) or _is_optional(made):
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
    """Return the DistributedSampler of a loader, where each sampler that it may have is one."""
    value = loader.argument(3, "sampler")
    if value is None or loader.has_star:
        return None
    made = [program.call_of(atom) for atom in value if atom.kind == Kind.RESULT and atom.const == SAMPLER]
    if not made or len(made) != len(value.atoms):
        return None
    first = made[0]
    return None if first is None or first.constant(1, "num_replicas") == 1 else first


def _is_optional(made: path_values.CallPath) -> bool:
    """Return whether a condition on a way is an option, which may be off where Accelerate divides the data."""
    return any(
        (node[1] == "if" or node[1].startswith("exit:")) and not _SEVERAL.search(row.term_text(node[2]))
        for row in (made.row, *made.calls)
        for _, node in row.blocks
    )
