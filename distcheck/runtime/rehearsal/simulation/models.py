"""Models that no wrapper keeps equal, and whose copies drift apart: judged as *watch* judges them."""

from __future__ import annotations

from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding, NotApplicable, Unavailable
from distcheck.core.registry import fact, probe
from distcheck.runtime.coordination import copies
from distcheck.runtime.coordination.copies import TrainedModels
from distcheck.runtime.coordination.copy_observer import models_of, row_of

from .plan import Rehearsal


@fact(of_this_host=False)
def read_models(rehearsal: Rehearsal) -> TrainedModels:
    """Return what the hook of ``training`` logged."""
    rows = [row_of(row.data["row"]) for row in rehearsal.of_ranks("training.copy")]
    if not rows:
        raise NotApplicable("no optimizer of torch has stepped a model that a wrapper does not keep equal")
    finished = all(end.how == "finished" and not end.status for end in rehearsal.ends)
    last = (row.data["last"] for row in rehearsal.of_ranks("training.copies"))
    return models_of(rows, len(rehearsal.ends), last, finished=finished)


@probe(rules.DC758, rules.DC759, rules.DC763)
def copies_stay_equal(models: TrainedModels) -> Iterator[Finding]:
    """Report parameters that begin equal on ranks that train together, and drift apart.

    :raises Unavailable: several ranks train, and none of them communicates between the first step and the last
    """
    yield from copies.copies_stay_equal(models)
    ends = [(of_model[min(of_model)], of_model[max(of_model)]) for of_model in models.steps.values()]
    pairs = [pair for first, last in ends for pair in zip(first, last, strict=True)]
    silent = not any(
        early.calls != late.calls or late.hooked_elsewhere or late.divides_data or late.unreduced
        for early, late in pairs
    )
    if len(pairs) > len(ends) and silent and not models.any_wrapped:
        raise Unavailable("the ranks make steps without a collective, and nothing shows that they train one model")
