"""What a rehearsal refused to send to other machines, and to processes of this one that are outside of it."""

from __future__ import annotations

from .plan import Rehearsal

#: Lines of the report at most.
_MOST = 5


def notes(rehearsal: Rehearsal) -> tuple[str, ...]:
    """Return what was refused, once for each line of the script."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for row in rehearsal.of("network."):
        found.setdefault((row.place, row.kind), {})[str(row.data["peer"])] = None
    lines = [
        f"{place}{': ' if place else ''}the connection to {', '.join([*peers][:3])}{_WHY[kind]} (--network allows it)"
        for (place, kind), peers in found.items()
    ]
    more = len(lines) - _MOST
    return (*lines[:_MOST], *([f"{more} more lines connect to other machines"] if more > 0 else ()))


_WHY = {"network.refused": " was refused", "network.outside": ", a process outside of the rehearsal, was refused"}
