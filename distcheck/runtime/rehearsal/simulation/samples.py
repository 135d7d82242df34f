"""Which samples the ranks of a rehearsal got, as a fact. Its probes are in ``coordination``, for *watch* too."""

from __future__ import annotations

from distcheck.core.model import NotApplicable
from distcheck.core.registry import fact
from distcheck.runtime.coordination.sampling import Samples, samples_of

from .plan import Rehearsal


@fact(of_this_host=False)
def read_samples(rehearsal: Rehearsal) -> Samples:
    """What the hooks of ``samples`` wrote down."""
    samples = samples_of(rehearsal.of("samples."), rehearsal.plan.world_size)
    if not samples.loaders and not samples.splits and not samples.divided:
        raise NotApplicable("no rank has made a DataLoader or divided a data set")
    return samples
