"""Models without a wrapper whose copies drift apart, and inputs that are the same on all ranks, in the first steps."""

from __future__ import annotations

from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding, Fix, NotApplicable, Unavailable, grouped
from distcheck.core.registry import fact, probe
from distcheck.runtime.coordination import copies
from distcheck.runtime.coordination.copies import ModelStep, ParameterCopy, TrainedModels
from distcheck.runtime.coordination.digests import Digest

from .plan import Rehearsal, where

#: Steps with equal inputs before these are no coincidence.
_STEPS_ALIKE = 3


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
        all(end.how == "finished" and not end.status for end in rehearsal.ends),
        any(len(row.data["ranks"]) > 1 for row in rehearsal.of_ranks("samples.twins")),
        any(row.data["wrapped"] for row in rows),
        {row.data["model"]: row.data["exchanges"] for row in rehearsal.of_ranks("models.last")},
    )


@probe(rules.DC763)
def copies_stay_equal(models: TrainedModels) -> Iterator[Finding]:
    """Report parameters that begin equal on ranks that train together, and drift apart.

    :raises Unavailable: several ranks train, and none of them communicates between the first step and the last
    """
    yield from copies.copies_stay_equal(models)
    ends = [(of_model[min(of_model)], of_model[max(of_model)]) for of_model in models.steps.values()]
    pairs = [pair for first, last in ends for pair in zip(first, last, strict=True)]
    silent = not any(early.calls != late.calls or late.hooked_elsewhere for early, late in pairs)
    if len(pairs) > len(ends) and silent and not models.any_wrapped:
        raise Unavailable("the ranks make steps without a collective, and nothing shows that they train one model")


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
