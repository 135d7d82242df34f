"""Gradients that an optimizer used while an asynchronous ``all_reduce`` of them was not waited for (DC713)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix
from distcheck.core.registry import probe

from .locations import where_of


class UnwaitedGradients(NamedTuple):
    """What one rank had not waited for when its optimizer ended a step."""

    rank: int
    #: the line of the ``all_reduce``, and that of the step
    place: str
    step_place: str
    #: gradients that it reduced, those of all parameters with one, and the number of the step
    gradients: int
    total: int
    step: int


@probe(rules.DC713)
def gradients_are_waited_for(unwaited: UnwaitedGradients) -> Iterator[Finding]:
    """Report an optimizer that uses gradients before their reduction has ended."""
    which = "a gradient" if unwaited.total == 1 else f"{unwaited.gradients} of {unwaited.total} gradients"
    yield rules.DC713.found(
        f"step {unwaited.step} of the optimizer at {unwaited.step_place} uses {which} that this asynchronous "
        "all_reduce may still change: nothing waited for its handle",
        where=where_of(unwaited.place, [unwaited.rank]),
        evidence={"step": unwaited.step, "gradients": unwaited.gradients, "rank": unwaited.rank},
        fix=Fix("keep each handle in a list, and call wait() of all of them before optimizer.step()", where="code"),
    )
