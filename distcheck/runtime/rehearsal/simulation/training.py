"""Replicas that drift apart, and optimizers and schedules that change nothing: judged as *watch* judges them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, NotApplicable
from distcheck.core.registry import fact, probe
from distcheck.runtime.coordination import clipping, drift, updates

from .plan import Rehearsal


class TrainingSteps(NamedTuple):
    """What the optimizer steps of all ranks show."""

    drifts: tuple[drift.Drift, ...]
    #: of the first rank for each line
    idle: tuple[updates.IdleOptimizer, ...]
    bursts: tuple[updates.ScheduleBurst, ...]
    clipped: tuple[clipping.ClippedGradients, ...]


@fact(of_this_host=False)
def read_training_steps(rehearsal: Rehearsal) -> TrainingSteps:
    """Return what the hook of ``training`` logged."""
    if not any(True for kind in ("stage.step", "training.row") for _ in rehearsal.of_ranks(kind)):
        raise NotApplicable("no optimizer of torch has made a step, and no tensor parallel module was called")
    known = (drift.row_of(row.data["row"]) for row in rehearsal.of_ranks("training.row"))
    # a hook of the rehearsal knows more of why DDP does not average a gradient
    rows = (row if row.may_begin_apart else row._replace(unreduced={}) for row in known)
    idle = [updates.IdleOptimizer(*row.data["found"]) for row in rehearsal.of_ranks("training.idle")]
    clipped = [clipping.ClippedGradients(*row.data["found"]) for row in rehearsal.of_ranks("training.clipped")]
    bursts = [updates.ScheduleBurst(*row.data["found"]) for row in rehearsal.of_ranks("training.burst")]
    return TrainingSteps(
        tuple(drift.drifts_of(rows)),
        tuple({(one.place, one.cleared_at): one for one in sorted(idle, reverse=True)}.values()),
        tuple({one.place: one for one in sorted(bursts, reverse=True)}.values()),
        tuple({one.place: one for one in sorted(clipped, reverse=True)}.values()),
    )


@probe(rules.DC709, rules.DC753, rules.DC757, rules.DC763, rules.DC764)
def replicas_stay_equal(steps: TrainingSteps) -> Iterator[Finding]:
    """Report the first thing that differs between the replicas of each model."""
    for one in steps.drifts:
        yield from drift.replicas_stay_equal(one)


@probe(rules.DC752, rules.DC766)
def steps_change_parameters(steps: TrainingSteps) -> Iterator[Finding]:
    """Report optimizers that hold other tensors than the model, or whose steps change nothing."""
    for one in steps.idle:
        yield from updates.steps_change_parameters(one)


@probe(rules.DC765)
def schedules_step_once(steps: TrainingSteps) -> Iterator[Finding]:
    """Report schedulers that step once for each rank."""
    for one in steps.bursts:
        yield from updates.schedules_step_once(one)


@probe(rules.DC753, rules.DC758)
def gradients_are_clipped_after_the_reduction(steps: TrainingSteps) -> Iterator[Finding]:
    """Report gradients that each rank clips before they are reduced, or by the norm of its shard."""
    for one in steps.clipped:
        yield from clipping.gradients_are_clipped_after_the_reduction(one)
