"""Models that ranks train together without a wrapper that distcheck knows, and whose copies drift apart.

Copies are parameters that are equal on several ranks when they are first seen, and no constants. Where ranks exchange
other tensors than gradients and parameters, they may share out a model, and nothing is compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity, grouped_pairs, rank_names
from distcheck.core.registry import probe
from distcheck.runtime.coordination.digests import Digest
from distcheck.runtime.coordination.locations import where_of

from .wrapped_models import ALL_IN_NO_SYNC, HOOK

#: Steps with other values before copies count as apart.
_STEPS_APART = 2
#: In ``exchanges``: calls after the first step that got objects, or more than a few numbers.
ANY = "*"


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
    #: line of the step
    place: str
    #: of its steps, this one included
    nth: int
    #: kind of call → how many the rank has made: ``few`` elements, of the ``model``, ``other``
    calls: Mapping[str, int]
    parameters: Mapping[str, ParameterCopy]
    #: learning rates of the optimizer
    rates: tuple[float, ...] = ()
    #: name → calls that got this parameter; "": the whole model at once
    exchanges: Mapping[str, int] = {}
    #: hooks that call a collective are on another model, and none on this one
    hooked_elsewhere: bool = False
    #: why DDP, which wraps this model, does not average its gradients; "": nothing is known of that
    unreduced: str = ""
    #: name → ranks among which the script reduced the gradient for this step, if these are not all
    reduced_among: Mapping[str, tuple[int, ...]] = {}
    #: a ``DistributedSampler`` had begun to divide data among all ranks, with gradients enabled
    divides_data: bool = False
    #: name → buffer that may be drawn
    buffers: Mapping[str, Digest] = {}


class TrainedModels(NamedTuple):
    """What the ranks train."""

    #: model → count → steps of all ranks, by rank
    steps: Mapping[int, Mapping[int, tuple[ModelStep, ...]]]
    #: all ranks have come to the end of the script
    finished: bool
    #: ranks that may read the same
    twins: bool
    #: DDP wraps a model, this one or another
    any_wrapped: bool
    #: model → ``exchanges`` of its steps, at the end
    exchanges: Mapping[int, Mapping[str, int]] = {}


class DriftingCopies(NamedTuple):
    """Copies of a parameter that were equal, and differ from some step on."""

    name: str
    what: str
    ranks: tuple[int, ...]
    steps: tuple[ModelStep, ...]


@probe(rules.DC758, rules.DC759, rules.DC763)
def copies_stay_equal(models: TrainedModels) -> Iterator[Finding]:
    """Report parameters that begin equal on ranks that train together, and drift apart."""
    for number, steps in models.steps.items():
        found = next(_drifting(models, number, list(steps.values())), None)
        if found is None:
            yield from _own_buffers(models, number, list(steps.values()))
            continue
        first = found.steps[0]
        rule, why, fix = _CAUSES[first.unreduced]
        yield rule.found(
            f"{found.what} {found.name} of {first.network} differs between {rank_names(found.ranks)} from step "
            f"{first.nth} on, and the parameter began equal. {why}",
            where=where_of(first.place, found.ranks),
            severity=Severity.WARNING,
            evidence={"step": first.nth, "parameter": found.name, "copies_of": first.network},
            fix=Fix(fix, where="code"),
        )


#: Why DDP does not average gradients → rule, sentence and fix; "": DDP does not wrap the model.
_CAUSES = {
    "": (
        rules.DC763,
        "No call averages its gradient, or a rank changes it alone",
        "wrap the model in DistributedDataParallel, or average the gradients of all its parameters before each step",
    ),
    ALL_IN_NO_SYNC: (
        rules.DC759,
        "All forward passes of steps were in no_sync() or had require_backward_grad_sync off, so DDP averaged nothing",
        "run the last forward before each step outside of no_sync(), or set require_backward_grad_sync to True for it",
    ),
    HOOK: (
        rules.DC758,
        "The communication hook of DDP leaves other gradients on each rank, and no call averages the parameters",
        "let the hook return a future of what was reduced: all_reduce of bucket.buffer(), divided by the number of "
        "ranks",
    ),
}


def _own_buffers(models: TrainedModels, number: int, series: Sequence[tuple[ModelStep, ...]]) -> Iterator[Finding]:
    """Report a buffer that no rank changes, and that differs between ranks that average all else of the model."""
    first, last = series[0], series[-1]
    averages = all(step.calls.get("model", 0) > 0 for step in last)
    if len(series) < _STEPS_APART or not averages or not _train_together(models, number, first, last):
        return
    varied = [name for name, one in first[0].parameters.items() if one.varied]
    if not varied or any(_checksums(steps, name) != 1 for steps in (first, last) for name in varied):
        return  # it is not one model
    for name in first[0].buffers:
        of_ranks = [[step.buffers.get(name) for step in steps] for steps in zip(*series, strict=True)]
        constant = all(one is not None and one == values[0] for values in of_ranks for one in values)
        if constant and _differ([values[0] for values in of_ranks]):
            ranks = tuple(step.rank for step in first)
            yield rules.DC763.found(
                f"buffer {name} of {first[0].network} differs between {rank_names(ranks)} in all steps, and no rank "
                "changes it. The parameters are equal, so each rank trains them for another function",
                where=where_of(first[0].place, ranks),
                severity=Severity.WARNING,
                evidence={"step": first[0].nth, "buffer": name, "copies_of": first[0].network},
                fix=Fix(
                    "broadcast the buffers next to the parameters: for each in model.buffers(): "
                    "dist.broadcast(each, src=0)",
                    where="code",
                ),
            )
            return


def _checksums(steps: Sequence[ModelStep], name: str) -> int:
    """Return how many values of a parameter the ranks have."""
    return len({step.parameters[name].parameter.checksum for step in steps if name in step.parameters})


def _drifting(models: TrainedModels, number: int, series: Sequence[tuple[ModelStep, ...]]) -> Iterator[DriftingCopies]:
    first, last = series[0], series[-1]
    if not _train_together(models, number, first, last):
        return
    if first[0].unreduced and not models.finished:
        return  # the script may average the parameters now and then
    for name in {name: None for steps in series for name in steps[0].parameters}:
        known = [steps for steps in series if all(name in step.parameters for step in steps)]
        if not known or not all(step.parameters[name].varied for step in known[0]):
            continue
        # parts of a model may belong to some ranks each, and begin equal on all
        alike = [
            ((step.parameters[name].parameter.checksum, _reduced_among(name, of_rank)), step.rank)
            for step, of_rank in zip(known[0], zip(*known, strict=True), strict=True)
        ]
        for ranks in grouped_pairs(alike).values():
            of_copies = [tuple(step for step in steps if step.rank in ranks) for steps in known]
            if len(ranks) > 1 and (found := _apart(name, of_copies, models.exchanges.get(number, {}))) is not None:
                yield found


def _reduced_among(name: str, steps: Sequence[ModelStep]) -> tuple[int, ...]:
    """Return the part of the ranks among which the gradient of a parameter is reduced; (): all, or not known."""
    return next((ranks for step in steps if (ranks := step.reduced_among.get(name, ()))), ())


def _train_together(models: TrainedModels, number: int, first: Sequence[ModelStep], last: Sequence[ModelStep]) -> bool:
    """Return whether the ranks train one model: they divide data, or make collectives between the steps.

    Collectives of other tensors than gradients and numbers show that they may share out a model.
    """
    if models.twins or any(step.calls.get("other") for step in last):
        return False
    made = {
        kind: all(late.calls.get(kind, 0) > early.calls.get(kind, 0) for early, late in zip(first, last, strict=True))
        for kind in ("few", "model")
    }
    if all(step.hooked_elsewhere for step in first) and models.finished:
        return True
    # what ranks exchanged in other forms may have been their models
    exchanged = models.exchanges.get(number, {}).get(ANY, 0)
    divided = all(step.divides_data for step in first) and len({step.rates for step in first}) == 1
    if divided and models.finished and not exchanged:
        return True
    # a script that was ended early may average its models later, and one that compares learning rates trains several
    return (
        made["model"]
        or models.any_wrapped
        or (made["few"] and models.finished and len({step.rates for step in first}) == 1)
    )


def _apart(
    name: str, series: Sequence[tuple[ModelStep, ...]], synced_at_end: Mapping[str, int]
) -> DriftingCopies | None:
    """Return how copies differ that do so from one step to the last."""
    values = [[step.parameters[name].parameter for step in steps] for steps in series]
    differ = [len({value.checksum for value in of_step}) > 1 for of_step in values]
    if True not in differ or not all(differ[differ.index(True) :]) or sum(differ) < _STEPS_APART:
        return None
    if _may_be_made_equal(name, [steps[0] for steps in series], differ, synced_at_end):
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


def unchecked(models: TrainedModels) -> str:
    """Return why the copies of a model were not compared; "": all were."""
    for number, steps in models.steps.items():
        first, last = next(iter(steps.values())), steps[max(steps)]
        if models.twins:
            return "ranks share out a model, or may do so"
        if any(step.calls.get("other") for step in last):
            return "ranks exchange other tensors than gradients and parameters, and may share out a model"
        if not _train_together(models, number, first, last):
            return "no collective shows that the ranks train one model"
        if not _have_copies(first):
            return "no parameter that is no constant is equal on several ranks before the first step"
    return ""


def _have_copies(steps: Sequence[ModelStep]) -> bool:
    digests = [(name, one.parameter.checksum) for step in steps for name, one in step.parameters.items() if one.varied]
    return len(set(digests)) < len(digests)


def _may_be_made_equal(
    name: str, steps: Sequence[ModelStep], differ: Sequence[bool], synced_at_end: Mapping[str, int]
) -> bool:
    """Return whether a call may have made copies equal where no step was compared: between two of them, or at the end.

    A step right after such a call that still differs shows that the calls do something else.
    """
    counts = [*(_exchanges(name, step.exchanges) for step in steps), _exchanges(name, synced_at_end)]
    unknown = False
    for index, (step, begins_apart) in enumerate(zip(steps, differ, strict=True)):
        if not begins_apart or counts[index + 1] <= counts[index]:
            continue
        if index + 1 < len(steps) and steps[index + 1].nth == step.nth + 1:
            return False
        unknown = True
    return unknown


def _exchanges(name: str, synced: Mapping[str, int]) -> int:
    return synced.get(name, 0) + synced.get("", 0)
