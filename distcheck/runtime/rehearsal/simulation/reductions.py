"""How gradients become those that an optimizer uses, as a fact. The probe is in ``coordination``, for *watch* too."""

from __future__ import annotations

from distcheck.core.model import NotApplicable
from distcheck.core.registry import fact
from distcheck.runtime.coordination.reductions import GradientStep, Reductions, reductions_of

from .plan import Rehearsal


@fact(of_this_host=False)
def read_reductions(rehearsal: Rehearsal) -> Reductions:
    """Return what the hook of ``reductions`` logged."""
    rows = [
        row.fill(
            GradientStep,
            nth=row.data["count"],
            entries=tuple(map(tuple, row.data["entries"])),
            final=tuple(row.data["final"]),
        )
        for row in rehearsal.of_ranks("reductions.step")
    ]
    if not rows:
        raise NotApplicable("no optimizer of torch has made a second step")
    return reductions_of(rows, {end.rank for end in rehearsal.ends})
