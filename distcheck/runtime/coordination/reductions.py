"""By which factor gradients are averaged: twice by the number of ranks, or older parts of them several times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, grouped
from distcheck.core.registry import probe

from .locations import where_of
from .vectors import Vector, apart, factor_of, scaled, summed

#: Steps that have to show the same.
_STEPS = 2
#: Relative errors: of numbers that agree, and of vectors that have other directions.
_EQUAL, _ANOTHER = 2e-3, 5e-2
#: The mean over all ranks needs the rows of each, so jobs with more of them are not judged.
MOST_RANKS = 64


class GradientStep(NamedTuple):
    """One gradient on one rank, from one step to the next."""

    rank: int
    #: counted alike on all ranks
    optimizer: int
    nth: int
    name: str
    #: line of the step
    place: str
    #: what each backward pass added, or ``(reduction, line, ranks)`` of a call
    entries: tuple[Any, ...]
    #: what the optimizer uses
    final: Vector
    #: it began empty
    fresh: bool
    #: the loss is scaled
    scaled: bool


class Reductions(NamedTuple):
    """The gradients that all ranks have: steps of each, by rank."""

    steps: tuple[tuple[GradientStep, ...], ...]


def gradient_of(values: Iterable[Any]) -> GradientStep:
    """Return a step that was written as JSON."""
    step = GradientStep(*values)
    return step._replace(entries=tuple(map(tuple, step.entries)), final=tuple(step.final))


def reductions_of(rows: Iterable[GradientStep], ranks: set[int]) -> Reductions:
    """Return the gradients that all ranks have."""
    together = grouped(rows, lambda row: (row.optimizer, row.name, row.nth))
    return Reductions(tuple(
        tuple(sorted(steps)) for _, steps in sorted(together.items())
        if len(ranks) > 1 and {step.rank for step in steps} == ranks
    ))  # fmt: skip


@probe(rules.DC758)
def gradients_are_averaged_once(reductions: Reductions) -> Iterator[Finding]:
    """Report gradients that are divided twice, or of which older parts are summed up again."""
    again: dict[str, list[Sequence[GradientStep]]] = {}
    twice: dict[str, list[Sequence[GradientStep]]] = {}
    once: set[str] = set()
    for steps in reductions.steps:
        first = steps[0]
        if not all(step.fresh for step in steps) or any(apart(step.final, first.final) > _EQUAL for step in steps):
            continue
        mean = scaled(summed(_sum(step) for step in steps), 1 / len(steps))
        factor, error = factor_of(first.final, mean)
        reducing = [entry for entry in first.entries if _is_call(entry)]
        if error > _ANOTHER and len(reducing) > 1 and _all_in(steps, "sum"):
            if factor_of(first.final, _summed_again(steps))[1] < _EQUAL:
                again.setdefault(reducing[-1][1], []).append(steps)
        elif error < _EQUAL and not first.scaled and abs(factor * len(steps) - 1) < _EQUAL:
            # as many micro-batches as ranks: the script may divide by their number. Not each one uses all layers
            if len(first.entries) - len(reducing) == len(steps):
                once.add(first.place)
            else:
                twice.setdefault(first.place, []).append(steps)
        else:
            once.add(first.place)
    for place, found in again.items():
        if len({steps[0].nth for steps in found}) >= _STEPS:
            yield _again(place, found)
    for place, found in twice.items():
        if place not in once and len({steps[0].nth for steps in found}) >= _STEPS:
            yield _twice(place, found)


def _again(place: str, found: Sequence[Sequence[GradientStep]]) -> Finding:
    first = found[0][0]
    calls = sum(_is_call(entry) for entry in first.entries)
    return rules.DC758.found(
        f"this all_reduce sums a gradient {calls} times for one step at {first.place}, once after each backward pass. "
        "What an earlier pass gave is summed again, and counts once more for each rank",
        where=where_of(place, [step.rank for step in found[0]]),
        evidence={"reductions_of_a_step": calls, "gradient": first.name, "step": first.nth},
        fix=Fix("reduce the gradients once, after the last backward pass before the step", where="code"),
    )


def _twice(place: str, found: Sequence[Sequence[GradientStep]]) -> Finding:
    first, ranks = found[0][0], len(found[0])
    return rules.DC758.found(
        f"the gradients of this step are 1/{ranks} of the mean over {ranks} ranks. They are divided by the number of "
        f"ranks twice, or by another number that is {ranks} as well",
        where=where_of(place, [step.rank for step in found[0]]),
        evidence={"factor": f"1/{ranks}", "gradient": first.name, "step": first.nth},
        fix=Fix(
            "if both divisions are by the number of ranks, drop one: DDP, FSDP and ReduceOp.AVG already give the mean",
            where="code",
        ),
    )


def _is_call(entry: tuple[Any, ...]) -> bool:
    return isinstance(entry[0], str)


def _all_in(steps: Sequence[GradientStep], reduction: str) -> bool:
    """Return whether all calls reduce over all ranks, in this way, at the same points."""
    calls = [
        [(index, entry[0], entry[2]) for index, entry in enumerate(step.entries) if _is_call(entry)] for step in steps
    ]
    return all(one == calls[0] for one in calls) and all(
        (name, size) == (reduction, len(steps)) for _, name, size in calls[0]
    )


def _sum(step: GradientStep) -> Vector:
    """Return what the backward passes of a step added on one rank; zeros if none did."""
    return summed([(0.0,) * len(step.final), *(entry for entry in step.entries if not _is_call(entry))])


def _summed_again(steps: Sequence[GradientStep]) -> Vector:
    """Return what a gradient is if each call sums what it was until then."""
    held = [(0.0,) * len(step.final) for step in steps]
    for entries in zip(*(step.entries for step in steps), strict=False):
        if _is_call(entries[0]):
            held = [summed(held)] * len(held)
        else:
            held = [summed(pair) for pair in zip(held, entries, strict=True)]
    return held[0]
