"""How gradients become those that an optimizer uses, as a fact. The probe is in ``coordination``, for *watch* too."""

from __future__ import annotations

from distcheck.core.model import NotApplicable
from distcheck.core.registry import fact
from distcheck.runtime.coordination.reductions import Reductions, gradient_of, reductions_of

from .plan import Rehearsal


@fact(of_this_host=False)
def read_reductions(rehearsal: Rehearsal) -> Reductions:
    """Return what the hook of ``training`` logged."""
    rows = [gradient_of(row.data["row"]) for row in rehearsal.of_ranks("training.reduction")]
    if not rows:
        raise NotApplicable("no optimizer of torch has made a second step")
    return reductions_of(rows, {end.rank for end in rehearsal.ends})
