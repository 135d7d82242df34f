"""Replicas of a model that diverge although DDP synchronizes them, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from distcheck import rules
from distcheck.core.model import Finding, Fix, Rule, Severity, rank_names
from distcheck.core.registry import probe

from .plan import where
from .replicas import (
    ModelChange,
    ModelReplica,
    OptimizerStep,
    ReplicaDifference,
    Replicas,
    differing,
    equal_again,
    side_by_side,
)

#: The error of a rank whose frozen parameter never has a gradient.
_UNFINISHED = "Expected to have finished reduction in the prior iteration"
#: Steps with other gradients on each rank, after which a hook or no_sync() is the cause.
_STEPS_APART = 2


def _apart(difference: ReplicaDifference) -> str:
    """``the gradient of 0.weight has the norm 0.53 on rank 0 and 0.61 on rank 1``."""
    norms = list(difference.norms().items())
    rank, norm = norms[0]
    other, different = max(norms[1:], key=lambda item: abs(item[1] - norm))
    return (
        f"the gradient of {difference.name} has the norm {norm:.4g} on rank {rank} and {different:.4g} on rank {other}"
    )


def _evidence(difference: ReplicaDifference, wrap: ModelReplica, names: Sequence[str], **more: Any) -> dict[str, Any]:
    step = difference.steps[0]
    return {
        "wrapped_at": wrap.place,
        "model": wrap.network,
        "step": step.nth,
        "optimizer_step_at": step.place,
        "parameter": difference.name,
        "gradient_norm_by_rank": difference.norms(),
        "parameters_that_differ": list(names[:8]),
        "count": len(names),
        **more,
    }


def _drifting(replicas: Replicas) -> Iterator[tuple[ModelReplica, tuple[OptimizerStep, ...], list[ReplicaDifference]]]:
    """Steps at which gradients differ, and the copies with them from then on."""
    by_hand: set[tuple[int, str]] = set()
    for wrap, steps in side_by_side(replicas):
        model = (wrap.number, wrap.place)
        differences = list(differing(steps))
        # one that has no effect (in front of a normalisation) stays equal by itself
        found = [one for one in differences if not equal_again(replicas, one)]
        if differences and not found:
            by_hand.add(model)
        if found and model not in by_hand:
            yield wrap, steps, found


@probe(rules.DC750)
def forwards_go_through_ddp(replicas: Replicas) -> Iterator[Finding]:
    """Gradients that come from a forward of the wrapper are equal on all ranks."""
    reported: set[str] = set()
    for wrap, steps, found in _drifting(replicas):
        owned = [one for one in found if one.state == "owned"]
        if not owned:
            continue
        around = [place for step in steps for place in step.around]
        through = max(step.since for step in steps)
        if not around and through:
            continue
        place = around[0] if around else wrap.place
        if place in reported:
            continue
        reported.add(place)
        path = f"this forward bypasses DDP, which wrapped the model at {wrap.place}"
        if not around:
            path = "the model that DDP wraps here is trained, and no forward goes through the wrapper"
        elif through:
            path += f", and {through} go through it"
        yield rules.DC750.found(
            f"{path}: {_apart(owned[0])} at step {steps[0].nth}, and the replicas diverge",
            where=where(place, owned[0].ranks),
            fix=Fix(
                "call the wrapper for the loss, not the network inside it; move other work on the network into"
                " its forward()",
                where="code",
            ),
            evidence=_evidence(owned[0], wrap, [one.name for one in owned], forwards_through_ddp=through),
        )


@probe(rules.DC758)
def hooks_give_equal_gradients(replicas: Replicas) -> Iterator[Finding]:
    """Report a communication hook of the script after which gradients differ, step after step."""
    steps_apart: dict[str, int] = {}
    for wrap, steps, found in _drifting(replicas):
        place = steps[0].own_hook
        if not place or not all(step.synced and step.since and not step.around for step in steps):
            continue
        steps_apart[place] = steps_apart.get(place, 0) + 1
        if steps_apart[place] == _STEPS_APART:
            yield rules.DC758.found(
                f"this communication hook of the model that DDP wrapped at {wrap.place} leaves other gradients on each "
                f"rank: {_apart(found[0])} at step {steps[0].nth}, and the replicas diverge",
                where=where(place, found[0].ranks),
                fix=Fix(
                    "let the hook return a future of what was reduced: all_reduce of bucket.buffer(), divided by the "
                    "number of ranks",
                    where="code",
                ),
                evidence=_evidence(found[0], wrap, [one.name for one in found]),
            )


@probe(rules.DC759)
def steps_follow_a_reduction(replicas: Replicas) -> Iterator[Finding]:
    """Report steps whose last forward was inside no_sync(): an earlier one, or only the backward pass, was outside."""
    steps_apart: dict[tuple[str, str], int] = {}
    for wrap, steps, found in _drifting(replicas):
        why = next((text for test, text in _UNSYNCED if all(test(step) for step in steps)), "")
        if not why or not all(step.since and not step.around for step in steps):
            continue
        steps_apart[wrap.place, why] = steps_apart.get((wrap.place, why), 0) + 1
        if steps_apart[wrap.place, why] == _STEPS_APART:
            yield rules.DC759.found(
                f"the optimizer steps here with gradients that DDP did not average. {why}: "
                f"{_apart(found[0])} at step {steps[0].nth}",
                where=where(steps[0].place, found[0].ranks),
                fix=Fix(
                    "run the last forward before each step outside of no_sync(), too",
                    where="code",
                ),
                evidence=_evidence(found[0], wrap, [one.name for one in found]),
            )


#: How the gradients of a step were not averaged.
_UNSYNCED: tuple[tuple[Callable[[OptimizerStep], bool], str], ...] = (
    (lambda step: step.backward_outside, "The forward was inside no_sync(), and only the backward pass outside"),
    (lambda step: step.reduced_early, "An earlier forward was outside of no_sync(), and the last one inside"),
)


#: State of a parameter that DDP has no hook for → what happened to it.
_LATE = {
    "unfrozen": "was unfrozen",
    "added": "became part of the model",
    "replaced": "took the place of another parameter",
}


@probe(rules.DC751)
def trained_parameters_are_settled(replicas: Replicas) -> Iterator[Finding]:
    """Which parameters are trained does not change once DDP has put its hooks on them."""
    reported: set[str] = set()
    for wrap, steps, found in _drifting(replicas):
        late = [one for one in found if one.state in _LATE]
        if not late:
            continue
        first = late[0]
        change = _change(replicas, steps, "unfrozen") if first.state == "unfrozen" else None
        place = change.place if change is not None else wrap.place
        if place in reported:
            continue
        reported.add(place)
        yield rules.DC751.found(
            f"{first.name} {_LATE[first.state]} after DDP wrapped the model at {wrap.place}, so no hook averages its"
            f" gradient: {_apart(first)} at step {steps[0].nth}",
            where=where(place, first.ranks),
            severity=_worst_severity(rules.DC751),
            fix=_settle(wrap),
            evidence=_evidence(first, wrap, [one.name for one in late]),
        )
    yield from _frozen_parameters(replicas)


def _settle(wrap: ModelReplica) -> Fix:
    return Fix(
        f"choose the parameters and what is trained before DDP wraps the model at {wrap.place},"
        " or wrap its .module again afterwards",
        where="code",
    )


def _frozen_parameters(replicas: Replicas) -> Iterator[Finding]:
    """Report a wrapper that waits for gradients of parameters that were frozen later."""
    ranks = [end.rank for end in replicas.ends if end.how == "raised" and _UNFINISHED in end.detail]
    for rank in ranks[:1]:
        frozen = [one for one in replicas.changes if one.rank == rank and one.what == "frozen"]
        wrap = replicas.wrap_of(rank, frozen[-1].model) if frozen else None
        if wrap is None:
            continue
        yield rules.DC751.found(
            f"{frozen[-1].name} was frozen after DDP wrapped the model at {wrap.place}: DDP waits for a gradient"
            " that never comes, and the next forward fails",
            where=where(frozen[-1].place, ranks),
            severity=_worst_severity(rules.DC751),
            fix=_settle(wrap),
            evidence={"wrapped_at": wrap.place, "parameter": frozen[-1].name, "raised": _UNFINISHED},
        )


def _worst_severity(rule: Rule) -> Severity:
    """Return the highest severity of a rule: the error happened."""
    return max(rule.severities)


def _change(replicas: Replicas, steps: Sequence[OptimizerStep], what: str) -> ModelChange | None:
    """The last change of a kind that came before some steps."""
    by_rank = {step.rank: step for step in steps}
    found = [
        change
        for change in replicas.changes
        if change.what == what
        and change.rank in by_rank
        and change.model == by_rank[change.rank].model
        and change.forwards <= by_rank[change.rank].forwards
    ]
    return found[-1] if found else None


@probe(rules.DC756)
def wrapped_models_stay_where_they_are(replicas: Replicas) -> Iterator[Finding]:
    """No parameter is moved or cast once DDP has put its hooks on it, and training goes on."""
    reported: set[tuple[int, str]] = set()
    for change in sorted(replicas.changes, key=lambda one: one.rank):
        wrap = replicas.wrap_of(change.rank, change.model)
        if change.what != "moved" or wrap is None or len(wrap.ranks) < 2:
            continue
        later = [step for step in _trained_after(replicas, change) if step.since]
        key = (change.model, wrap.place)
        if not later or key in reported:
            continue
        reported.add(key)
        ranks = sorted({one.rank for one in replicas.changes if (one.what, one.place) == ("moved", change.place)})
        yield rules.DC756.found(
            f"the model that DDP wrapped at {wrap.place} goes from {change.before} to {change.after}"
            " here, and training continues. Its parameters lose their hooks, so gradients are no longer averaged",
            where=where(change.place, ranks),
            fix=Fix(
                f"move and cast the model before DDP wraps it at {wrap.place}; for a checkpoint copy the state_dict,"
                " not the model",
                where="code",
            ),
            evidence={
                "wrapped_at": wrap.place,
                "parameter": change.name,
                "before": change.before,
                "after": change.after,
                "trained_on_at": later[0].place,
            },
        )
    yield from _moved_unseen(replicas, reported)


def _trained_after(replicas: Replicas, change: ModelChange) -> list[OptimizerStep]:
    return [
        step
        for step in replicas.steps
        if (step.rank, step.model) == (change.rank, change.model) and step.nth and step.forwards > change.forwards
    ]


def _moved_unseen(replicas: Replicas, reported: set[tuple[int, str]]) -> Iterator[Finding]:
    """Parameters that are somewhere else than those that DDP took, without a move that was seen."""
    for wrap, steps, found in _drifting(replicas):
        other = [one for one in found if one.state == "moved"]
        key = (wrap.number, wrap.place)
        if not other or key in reported:
            continue
        reported.add(key)
        yield rules.DC756.found(
            f"{other[0].name} was moved or cast after DDP had wrapped the model here, so no hook averages its gradient:"
            f" {_apart(other[0])} at step {steps[0].nth}",
            where=where(wrap.place, other[0].ranks),
            severity=_worst_severity(rules.DC756),
            fix=_settle(wrap),
            evidence=_evidence(other[0], wrap, [one.name for one in other]),
        )


@probe(rules.DC763)
def replicas_begin_equal(replicas: Replicas) -> Iterator[Finding]:
    """Values that differ before the first step: something changed them after DDP had made them equal."""
    reported: set[str] = set()
    for wrap, steps in side_by_side(replicas):
        if wrap.place in reported or any(step.nth > 1 or step.hooks for step in steps):
            continue
        if not wrap.shared or any(_earlier(replicas, step) for step in steps):
            continue
        unequal = [one for one in differing(steps, of_values=True) if one.state == "owned"]
        apart = {one.name for one in differing(steps)}
        if not unequal or equal_again(replicas, unequal[0]) or unequal[0].name in apart:
            continue
        reported.add(wrap.place)
        norms = unequal[0].norms(of_values=True)
        yield rules.DC763.found(
            f"the copies of the model that DDP wrapped here differ before the first step: {unequal[0].name} has the"
            f" norm {' and '.join(f'{norm:.4g} on rank {rank}' for rank, norm in list(norms.items())[:2])};"
            " some ranks have changed their copy after it was wrapped, and equal gradients never bring them together",
            where=where(wrap.place, unequal[0].ranks),
            fix=Fix(
                "load or change the parameters before DDP wraps the model, which sends those of rank 0 to all; or do"
                " it on all ranks",
                where="code",
            ),
            evidence={
                "wrapped_at": wrap.place,
                "parameter": unequal[0].name,
                "norm_by_rank": norms,
                "parameters_that_differ": [one.name for one in unequal[:8]],
                "count": len(unequal),
            },
        )


@probe(rules.DC757)
def all_ranks_make_steps(replicas: Replicas) -> Iterator[Finding]:
    """Report copies of a model that no optimizer steps on some ranks, and that therefore differ at the end."""
    for number in sorted({wrap.number for wrap in replicas.wraps}):
        ends = {step.rank: step for step in replicas.steps if step.model == number and not step.nth}
        wrap = replicas.wrap_of(min(ends, default=0), number)
        if wrap is None or set(ends) != set(wrap.ranks) or any(end.forwards < _STEPS_APART for end in ends.values()):
            continue
        stepped = [step for step in replicas.steps if step.model == number and step.nth >= _STEPS_APART]
        without = sorted(set(ends) - {step.rank for step in replicas.steps if step.model == number and step.nth})
        apart = list(differing(tuple(ends[rank] for rank in sorted(ends)), of_values=True))
        if stepped and without and apart:
            yield rules.DC757.found(
                f"the optimizer steps the model that DDP wrapped at {wrap.place} here, and on {rank_names(without)} "
                f"no optimizer does: {apart[0].name} differs between the ranks at the end",
                where=where(stepped[0].place, without),
                severity=Severity.WARNING,
                fix=Fix("call optimizer.step() on all ranks, after the backward pass of DDP", where="code"),
                evidence={"wrapped_at": wrap.place, "steps": max(step.nth for step in stepped)},
            )


def _earlier(replicas: Replicas, step: OptimizerStep) -> bool:
    """Whether another optimizer has changed this copy before."""
    return any(
        (one.rank, one.model) == (step.rank, step.model) and one.optimizer != step.optimizer and one.nth
        for one in replicas.steps[: replicas.steps.index(step)]
    )
