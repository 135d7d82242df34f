"""Models that ranks train together without a wrapper that distcheck knows: copies that drift apart, and equal inputs.

Copies are parameters that are equal on several ranks when they are first seen, and no constants. Where ranks exchange
other tensors than gradients and parameters, they may share out a model, and nothing is compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, NotApplicable, Severity, grouped, grouped_pairs, rank_names
from distcheck.core.registry import fact, probe
from distcheck.runtime.coordination.digests import Digest

from .plan import Rehearsal, where

#: Steps with other values before copies count as apart, and with equal inputs before these are no coincidence.
_STEPS_APART, _STEPS_ALIKE = 2, 3


class ParameterCopy(NamedTuple):
    """One parameter on one rank."""

    #: its elements differ
    varied: bool
    gradient: Digest | None
    parameter: Digest


class ModelStep(NamedTuple):
    """A model right before a step."""

    rank: int
    model: int
    #: class of the module
    network: str
    #: DDP wraps it
    wrapped: bool
    #: line of its first forward pass, and of the step
    called_at: str
    place: str
    #: of its steps, this one included
    nth: int
    #: digest of each input of a forward pass since the last step, and whether its elements differ
    inputs: tuple[tuple[int, int], ...]
    #: kind of call → how many the rank has made: ``few`` elements, of the ``model``, ``other``
    calls: Mapping[str, int]
    parameters: Mapping[str, ParameterCopy]


class TrainedModels(NamedTuple):
    """What the ranks train."""

    #: model → count → steps of all ranks, by rank
    steps: Mapping[int, Mapping[int, tuple[ModelStep, ...]]]
    #: models whose parameters were reduced after the last step
    synced_last: frozenset[int]
    #: all ranks have come to the end of the script
    finished: bool
    #: ranks that may read the same
    twins: bool


class DriftingCopies(NamedTuple):
    """Copies of a parameter that were equal, and differ from some step on."""

    name: str
    what: str
    ranks: tuple[int, ...]
    steps: tuple[ModelStep, ...]


@fact(of_this_host=False)
def read_models(rehearsal: Rehearsal) -> TrainedModels:
    """Return what the hook of ``models`` logged."""
    rows = list(rehearsal.of_ranks("models.step"))
    if not rows:
        raise NotApplicable("no optimizer of torch has stepped a model that was called in training mode")
    found: dict[int, dict[int, tuple[ModelStep, ...]]] = {}
    ranks = {end.rank for end in rehearsal.ends}
    for number, of_model in grouped(rows, lambda row: int(row.data["model"])).items():
        for count, at_step in sorted(grouped(of_model, lambda row: int(row.data["count"])).items()):
            steps = tuple(
                row.fill(
                    ModelStep,
                    nth=count,
                    inputs=tuple(map(tuple, row.data["inputs"])),
                    parameters={
                        name: ParameterCopy(varied, None if gradient is None else Digest(*gradient), Digest(*value))
                        for name, varied, gradient, value in row.data["parameters"]
                    },
                )
                for row in sorted(at_step, key=lambda row: row.rank or 0)
            )
            if {step.rank for step in steps} == ranks and len({step.network for step in steps}) == 1:
                found.setdefault(number, {})[count] = steps
    return TrainedModels(
        found,
        frozenset(row.data["model"] for row in rehearsal.of_ranks("models.last") if row.data["synced"]),
        all(end.how == "finished" and not end.status for end in rehearsal.ends),
        any(len(row.data["ranks"]) > 1 for row in rehearsal.of_ranks("samples.twins")),
    )


@probe(rules.DC763)
def copies_stay_equal(models: TrainedModels) -> Iterator[Finding]:
    """Report parameters that begin equal on ranks that train together, and drift apart."""
    for number, steps in models.steps.items():
        found = next(_drifting(models, number, list(steps.values())), None)
        if found is None:
            continue
        first = found.steps[0]
        yield rules.DC763.found(
            f"{found.what} {found.name} of {first.network} differs between {rank_names(found.ranks)} from step "
            f"{first.nth} on, and the parameter began equal. No call averages its gradient, or a rank changes it alone",
            where=where(first.place, found.ranks),
            severity=Severity.WARNING,
            evidence={"step": first.nth, "parameter": found.name, "copies_of": first.network},
            fix=Fix(
                "wrap the model in DistributedDataParallel, or average the gradients of all its parameters before each "
                "step",
                where="code",
            ),
        )


def _drifting(models: TrainedModels, number: int, series: Sequence[tuple[ModelStep, ...]]) -> Iterator[DriftingCopies]:
    first, last = series[0], series[-1]
    if first[0].wrapped or number in models.synced_last or not _train_together(models, first, last):
        return
    for name in {name: None for steps in series for name in steps[0].parameters}:
        known = [steps for steps in series if all(name in step.parameters for step in steps)]
        if not known or not all(step.parameters[name].varied for step in known[0]):
            continue
        checksums = [(step.parameters[name].parameter.checksum, step.rank) for step in known[0]]
        for ranks in grouped_pairs(checksums).values():
            of_copies = [tuple(step for step in steps if step.rank in ranks) for steps in known]
            if len(ranks) > 1 and (found := _apart(name, of_copies)) is not None:
                yield found


def _train_together(models: TrainedModels, first: Sequence[ModelStep], last: Sequence[ModelStep]) -> bool:
    """Return whether the ranks make collectives between the steps, and no others than of gradients and numbers."""
    if models.twins or any(step.calls.get("other") for step in last):
        return False
    made = {
        kind: all(late.calls.get(kind, 0) > early.calls.get(kind, 0) for early, late in zip(first, last, strict=True))
        for kind in ("few", "model")
    }
    any_wrapped = any(
        step.wrapped for of_model in models.steps.values() for steps in of_model.values() for step in steps
    )
    # a script that was ended early may average its models later
    return made["model"] or any_wrapped or (made["few"] and models.finished)


def _apart(name: str, series: Sequence[tuple[ModelStep, ...]]) -> DriftingCopies | None:
    """Return how copies differ that do so from one step to the last."""
    values = [[step.parameters[name].parameter for step in steps] for steps in series]
    differ = [len({value.checksum for value in of_step}) > 1 for of_step in values]
    if True not in differ or not all(differ[differ.index(True) :]) or sum(differ) < _STEPS_APART:
        return None
    gradients = [[step.parameters[name].gradient for step in steps] for steps in series]
    unequal = [_differ(of_step) for of_step in gradients]
    if not _differ(values[-1]) and sum(unequal) < _STEPS_APART:
        return None  # rounding explains it
    at = differ.index(True)
    before = next((index for index in range(at) if unequal[index]), None)
    what, at = ("parameter", at) if before is None else ("the gradient of", before)
    return DriftingCopies(name, what, tuple(step.rank for step in series[at]), series[at])


def _differ(digests: Sequence[Digest | None]) -> bool:
    known = [digest for digest in digests if digest is not None]
    return any(known[0].differs(digest) for digest in known[1:])


@probe(rules.DC736)
def inputs_differ_between_ranks(models: TrainedModels) -> Iterator[Finding]:
    """Report a model of which each rank trains a copy, and all ranks with the same inputs."""
    for of_model in models.steps.values():
        series = list(of_model.values())
        first, last = series[0], series[-1]
        reduced = all(
            late.calls.get("model", 0) > early.calls.get("model", 0) for early, late in zip(first, last, strict=True)
        )
        if models.twins or not (first[0].wrapped or reduced) or any(step.calls.get("other") for step in last):
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
