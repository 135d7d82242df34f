"""Judges hangs by the numbers of flight recorders: they identify the call of each group, where stacks show only lines.

If all ranks that wait have numbers, the probes of *watch* judge the same
:class:`~distcheck.runtime.coordination.model.Positions`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding
from distcheck.core.registry import probe
from distcheck.runtime.coordination import hang_detector
from distcheck.runtime.coordination.call_mismatch import sides_of
from distcheck.runtime.coordination.model import CallMismatch, CollectiveCall, Position, Positions
from distcheck.runtime.coordination.rank_monitor import HANG_TIMEOUT_S

from .snapshot import Snapshot

#: Operations whose ranks all give tensors of one size, by the names of the recorder.
_OF_ONE_SIZE = frozenset({"all_reduce", "allreduce", "broadcast", "_all_gather_base", "_reduce_scatter_base"})


def is_numbered(snapshot: Snapshot) -> bool:
    """Return whether the flight recorders of all ranks that wait here name their call."""
    waiting = [item for item in snapshot.positions.ranks if item.state == "waiting"]
    return bool(waiting) and all(
        item.call is not None and item.call.number and item.rank in snapshot.recorded for item in waiting
    )


def is_decided(snapshot: Snapshot) -> bool:
    """Return whether the numbers alone explain the hang."""
    return is_numbered(snapshot) and next(iter(recorders_name_the_calls(snapshot)), None) is not None


@probe(rules.DC517, rules.DC701, rules.DC702, rules.DC519, rules.DC704, rules.DC511)
def recorders_name_the_calls(snapshot: Snapshot) -> Iterator[Finding]:
    """Report calls of one group with one number that differ, and ranks that wait for each other in two groups."""
    if not is_numbered(snapshot):
        return
    positions = _positions(snapshot)
    yield from hang_detector.ranks_make_the_same_calls(positions)
    # ranks that exited, are stopped or work elsewhere are reported from their processes
    if all(item.state == "waiting" for item in positions.ranks):
        yield from hang_detector.every_wait_can_end(positions)


def _positions(snapshot: Snapshot) -> Positions:
    """Return positions in which unknown ranks can still arrive, with the calls that differ."""
    seen = [item._replace(state="computing") if item.state == "silent" else item for item in snapshot.positions.ranks]
    positions = snapshot.positions._replace(
        ranks=(*seen, *(Position(rank) for rank in snapshot.elsewhere)), hang_timeout_s=HANG_TIMEOUT_S
    )
    return positions._replace(mismatches=(*hang_detector.mismatched_waits(positions), *_of_other_sizes(positions)))


def _of_other_sizes(positions: Positions) -> Iterator[CallMismatch]:
    """Return calls with one number whose tensors differ, although they must not."""
    found: dict[tuple[str, int, str], list[tuple[int, CollectiveCall]]] = {}
    for position in positions.ranks:
        call = position.awaited_call
        if call is not None and call.operation in _OF_ONE_SIZE and call.sizes:
            found.setdefault((call.group, call.number, call.operation), []).append((position.rank, call))
    for (group, number, _), calls in found.items():
        sides = sides_of(calls, lambda call: (tuple(map(math.prod, call.sizes)), call.dtypes))
        if len(sides) > 1:
            yield CallMismatch(group, number, sides)
