"""Calls that failed on ranks whose script ended well, as a fact. The probe is in ``coordination``, for *watch* too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding
from distcheck.core.registry import fact, probe
from distcheck.runtime.coordination import failed_calls
from distcheck.runtime.coordination.failed_calls import CaughtFailure

from .plan import Rehearsal


class CaughtFailures(NamedTuple):
    """The failures of ranks that ended with status 0: of the first rank for each line."""

    found: tuple[CaughtFailure, ...]


@fact(of_this_host=False)
def read_caught_failures(rehearsal: Rehearsal) -> CaughtFailures:
    """Return what the hook of ``failed_calls`` logged."""
    well = {end.rank for end in rehearsal.ends if end.how == "finished" and not end.status}
    rows = [
        CaughtFailure(*row.data["found"])._replace(rank=row.rank or 0)
        for row in rehearsal.of_ranks("failed_calls.caught")
        if row.rank in well
    ]
    return CaughtFailures(tuple({one.place: one for one in sorted(rows, reverse=True)}.values()))


@probe(rules.DC747, rules.DC749)
def failures_end_the_script(failures: CaughtFailures) -> Iterator[Finding]:
    """Report calls that failed, and whose error no rank ended for."""
    for one in failures.found:
        yield from failed_calls.failures_end_the_script(one)
