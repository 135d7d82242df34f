"""What a rehearsal refused to send to other machines."""

from __future__ import annotations

from .plan import Rehearsal

#: Lines of the report at most.
_MOST = 5


def notes(rehearsal: Rehearsal) -> tuple[str, ...]:
    """Return what was refused, once for each line of the script."""
    found: dict[str, dict[str, None]] = {}
    for row in rehearsal.of("network.refused"):
        found.setdefault(row.place, {})[str(row.data["peer"])] = None
    lines = [
        f"{place}{': ' if place else ''}the connection to {', '.join([*peers][:3])} was refused (--network allows it)"
        for place, peers in found.items()
    ]
    more = len(lines) - _MOST
    return (*lines[:_MOST], *([f"{more} more lines connect to other machines"] if more > 0 else ()))
