"""Collectives that a forked child of a rank, such as a worker of a loader, makes in a group of its parent (DC737)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix
from distcheck.core.registry import probe

from .locations import where_of


class WorkerCall(NamedTuple):
    """A collective in a group that the process has only inherited."""

    operation: str
    place: str
    function: str
    #: of the parent; None: unknown
    rank: int | None = None
    #: what became of it
    outcome: str = ""


class WorkerCalls(NamedTuple):
    """All of them, each line once."""

    calls: tuple[WorkerCall, ...]


@probe(rules.DC737)
def workers_make_no_collective(found: WorkerCalls) -> Iterator[Finding]:
    """Report the line of each such call."""
    for call in found.calls:
        whose = "a rank" if call.rank is None else f"rank {call.rank}"
        yield rules.DC737.found(
            f"a process that {whose} forked, such as a worker of a data loader, calls {call.operation} here in the "
            f"process group of its parent{call.outcome}",
            where=where_of(call.place, () if call.rank is None else [call.rank]),
            fix=Fix(
                "make the collective in the main process, before or after the loader; or give the loader num_workers=0",
                where="code",
            ),
            # it happened
            severity=max(rules.DC737.severities),
            evidence={"operation": call.operation, "function": call.function},
        )
