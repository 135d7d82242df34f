"""What the flight recorders' numbers say: they tell which call of which group it is, where stacks know lines only.

Where every rank that waits has told its numbers, the same probes judge as in *watch*, over the same
:class:`~distcheck.runtime.coordination.model.Positions`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding
from distcheck.core.registry import probe
from distcheck.runtime.coordination import hang_detector
from distcheck.runtime.coordination.model import CallMismatch, CollectiveCall, Position, Positions

from .snapshot import Snapshot

#: Seconds without any movement that *watch* waits by default.
HANG_TIMEOUT_S = 20.0
#: Operations whose ranks all give tensors of one size, as the recorder calls them.
_OF_ONE_SIZE = frozenset({"all_reduce", "allreduce", "broadcast", "_all_gather_base", "_reduce_scatter_base"})


def is_numbered(snapshot: Snapshot) -> bool:
    """All ranks that wait here have told by their recorders in which call they are."""
    waiting = [item for item in snapshot.positions.ranks if item.state == "waiting"]
    return bool(waiting) and all(
        item.call is not None and item.call.number and item.rank in snapshot.recorded for item in waiting
    )


def is_decided(snapshot: Snapshot) -> bool:
    """The numbers alone explain why it does not go on."""
    return is_numbered(snapshot) and next(iter(recorders_tell_who_waits(snapshot)), None) is not None


@probe(rules.DC517, rules.DC701, rules.DC702, rules.DC519, rules.DC704, rules.DC511)
def recorders_tell_who_waits(snapshot: Snapshot) -> Iterator[Finding]:
    """Calls of one group with one number are alike, and no ranks wait for each other in two groups."""
    if not is_numbered(snapshot):
        return
    positions = _positions(snapshot)
    yield from hang_detector.ranks_make_the_same_calls(positions)
    # who has gone, is stopped or works elsewhere is told by what is seen of its process
    if all(item.state == "waiting" for item in positions.ranks):
        yield from hang_detector.every_wait_can_end(positions)


def _positions(snapshot: Snapshot) -> Positions:
    """With whom nothing is known of as one who may yet come, and with what does not fit."""
    seen = [item._replace(state="computing") if item.state == "silent" else item for item in snapshot.positions.ranks]
    positions = snapshot.positions._replace(
        ranks=(*seen, *(Position(rank) for rank in snapshot.elsewhere)), hang_timeout_s=HANG_TIMEOUT_S
    )
    return positions._replace(mismatches=(*hang_detector.mismatched_waits(positions), *_of_other_sizes(positions)))


def _of_other_sizes(positions: Positions) -> Iterator[CallMismatch]:
    """Calls with one number whose tensors differ, of those where they must not."""
    open_: dict[tuple[str, int, str], dict[tuple[object, ...], list[Position]]] = {}
    for position in positions.ranks:
        call = position.call
        if position.state == "waiting" and call is not None and call.operation in _OF_ONE_SIZE and call.sizes:
            key = tuple(map(math.prod, call.sizes)), call.dtypes
            open_.setdefault((call.group, call.number, call.operation), {}).setdefault(key, []).append(position)
    for (group, number, _), sides in open_.items():
        if len(sides) > 1:
            told: list[tuple[tuple[int, ...], CollectiveCall]] = [
                (tuple(item.rank for item in there), there[0].call) for there in sides.values() if there[0].call
            ]
            yield CallMismatch(group, number, tuple(sorted(told, key=lambda side: (-len(side[0]), side[0]))))
