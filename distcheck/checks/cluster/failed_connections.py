"""Connections between hosts that failed: by pair, and which hosts they share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from distcheck.core.model import Unavailable, grouped

from .records import ConnectionAttempt, Reach

#: Names, ports and pairs that a finding lists.
MOST_SHOWN = 6


def failed_pairs(reach: Reach) -> dict[tuple[str, str], list[ConnectionAttempt]]:
    """Return the failed tries by pair; a block that did not pass is no closed port."""
    found = grouped(
        (item for item in reach.failed if item.outcome != "stalled"), lambda item: (item.source, item.target)
    )
    for pair, items in list(found.items()):
        # a connection that is made and slow to answer is a busy host, unless none of them answers
        if all(_is_made(item) for item in items) and len(items) < max(reach.doors, 1):
            del found[pair]
    return dict(found)


def _is_made(item: ConnectionAttempt) -> bool:
    return item.outcome == "failed" and (item.error or "").startswith("connected")


def blocked_pairs(reach: Reach | Unavailable) -> set[tuple[str, str]]:
    """Return hosts that reach no other host."""
    if isinstance(reach, Unavailable):
        return set()
    return blocked_wholly(failed_pairs(reach), reach)


def blocked_wholly(failed: Mapping[tuple[str, str], Sequence[ConnectionAttempt]], reach: Reach) -> set[tuple[str, str]]:
    """Return the pairs between which no port was reached."""
    return {pair for pair, items in failed.items() if len(items) >= max(1, reach.doors)}


def hosts_in_common(items: Iterable[ConnectionAttempt]) -> list[str]:
    """Return the host that all failed connections share; else all that take part."""
    counts: Counter[str] = Counter()
    total = 0
    for item in items:
        total += 1
        counts.update({item.source, item.target})
    common = [host for host, count in counts.items() if count == total]
    return common if len(common) == 1 else sorted(counts)


def pair_text(items: Sequence[ConnectionAttempt]) -> str:
    """Return the first pairs as a text: ``from node1 to node2 and 3 more pairs``."""
    pairs = list(dict.fromkeys((item.source, item.target) for item in items))
    shown = ", ".join(f"from {source} to {target}" for source, target in pairs[:2])
    return f"{shown} and {len(pairs) - 2:,} more pairs" if len(pairs) > 2 else shown
