"""Inputs of models that are the same on all ranks, in the first steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, NotApplicable, grouped
from distcheck.core.registry import fact, probe

from .plan import Rehearsal, where

#: Steps with equal inputs before these are no coincidence.
_STEPS_ALIKE = 3


class InputStep(NamedTuple):
    """What a model took on one rank since its last step."""

    rank: int
    #: counted in its process
    model: int
    #: class of the module
    network: str
    #: DDP wraps it
    wrapped: bool
    #: line of its first forward pass
    called_at: str
    #: of its steps, this one included
    nth: int
    #: digest of each input of a forward pass, and whether its elements differ
    inputs: tuple[tuple[int, int], ...]
    #: calls that got gradients or parameters, and calls that got other tensors, until then
    of_model: int
    others: int


class Inputs(NamedTuple):
    """The steps of each model that all ranks have made, by rank."""

    models: tuple[tuple[tuple[InputStep, ...], ...], ...]
    #: ranks that may read the same
    twins: bool


@fact(of_this_host=False)
def read_inputs(rehearsal: Rehearsal) -> Inputs:
    """Return what the hook of ``inputs`` logged."""
    steps = [
        row.fill(
            InputStep, nth=row.data["count"], inputs=tuple(map(tuple, row.data["inputs"])),
            of_model=row.data["calls"].get("model", 0), others=row.data["calls"].get("other", 0),
        )
        for row in rehearsal.of_ranks("inputs.step")
    ]  # fmt: skip
    if not steps:
        raise NotApplicable("no optimizer of torch has stepped a model that was called in training mode")
    ranks = {end.rank for end in rehearsal.ends}
    models = []
    for _, of_model in sorted(grouped(steps, lambda step: step.model).items()):
        together = [tuple(sorted(made)) for _, made in sorted(grouped(of_model, lambda step: step.nth).items())]
        models.append(tuple(
            made for made in together
            if {step.rank for step in made} == ranks and len({step.network for step in made}) == 1
        ))  # fmt: skip
    twins = any(len(row.data["ranks"]) > 1 for row in rehearsal.of_ranks("samples.twins"))
    return Inputs(tuple(filter(None, models)), twins)


@probe(rules.DC736)
def inputs_differ_between_ranks(inputs: Inputs) -> Iterator[Finding]:
    """Report a model of which each rank trains a copy, and all ranks with the same inputs."""
    for series in inputs.models:
        first, last = series[0], series[-1]
        reduced = all(late.of_model > early.of_model for early, late in zip(first, last, strict=True))
        if inputs.twins or not (first[0].wrapped or reduced) or any(step.others for step in last):
            continue
        alike = [len({step.inputs for step in steps}) == 1 and bool(steps[0].inputs) for steps in series]
        different = {value for steps in series for value, varied in steps[0].inputs if varied}
        if not all(alike) or len(series) < _STEPS_ALIKE or len(different) < _STEPS_ALIKE:
            continue
        yield rules.DC736.found(
            f"all ranks pass the same inputs to {first[0].network}, in each of {len(series)} steps: they do the same "
            "work several times",
            where=where(first[0].called_at, [step.rank for step in first]),
            evidence={"equal_inputs_of": first[0].network, "steps": len(series)},
            fix=Fix(
                "let each rank draw samples of its own: DistributedSampler for a loader, and seed + rank for random "
                "numbers",
                where="code",
            ),
        )
