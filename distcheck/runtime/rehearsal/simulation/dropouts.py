"""Ranks that share out a model and drop other elements of the same activations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, NotApplicable, Severity, grouped
from distcheck.core.registry import fact, probe

from .plan import Rehearsal, where


class DropoutCall(NamedTuple):
    """One call on one rank."""

    rank: int
    #: counted in its process
    number: int
    place: str
    #: checksum of the input, and whether its elements differ
    given: tuple[int, int]
    result: int


class Dropouts(NamedTuple):
    """The calls of all ranks."""

    #: calls with one number, by rank
    calls: tuple[tuple[DropoutCall, ...], ...]
    #: all ranks exchange other tensors than gradients, parameters and numbers
    exchanged: bool


@fact(of_this_host=False)
def read_dropouts(rehearsal: Rehearsal) -> Dropouts:
    """Return what the hook of ``dropouts`` logged."""
    rows = [row.fill(DropoutCall, given=tuple(row.data["given"])) for row in rehearsal.of_ranks("dropouts.call")]
    ranks = {end.rank for end in rehearsal.ends}
    if not rows or len(ranks) < 2:
        raise NotApplicable("no dropout was called while training")
    together = grouped(rows, lambda row: row.number)
    exchanging = {row.rank for row in rehearsal.of_ranks("inputs.step") if row.data["calls"].get("other")}
    return Dropouts(
        tuple(tuple(sorted(calls)) for _, calls in sorted(together.items()) if {call.rank for call in calls} == ranks),
        exchanging == ranks,
    )


@probe(rules.DC763)
def same_activations_are_dropped_alike(dropouts: Dropouts) -> Iterator[Finding]:
    """Report a dropout whose inputs are the same on all ranks, and whose results differ."""
    alike = [
        calls for calls in dropouts.calls
        if len({call.given for call in calls}) == 1 and calls[0].given[1] and len({call.place for call in calls}) == 1
    ]  # fmt: skip
    differing = [calls for calls in alike if len({call.result for call in calls}) > 1]
    # the ranks' parameters drift apart after the first step, and then the inputs differ as well
    if not dropouts.exchanged or not differing or len(differing) < len(alike):
        return
    first = differing[0]
    calls = f"{len(differing)} call{'s' * (len(differing) != 1)}"
    yield rules.DC763.found(
        f"dropout gets the same input on all ranks and drops other elements on each, in {calls}. Ranks that share out "
        "a model then compute other values of what they replicate",
        where=where(first[0].place, [call.rank for call in first]),
        severity=Severity.WARNING,
        evidence={"calls": len(differing)},
        fix=Fix(
            "seed the ranks of one tensor parallel group alike, and draw other random numbers only for what is divided",
            where="code",
        ),
    )
