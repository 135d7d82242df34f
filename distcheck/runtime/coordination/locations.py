"""Ranks, and lines of scripts, as messages and findings name them. All functions are pure."""

from __future__ import annotations

from collections.abc import Iterable

from distcheck.core.model import Where, rank_names, rank_ranges

#: Ranges of ranks in one sentence.
_RANGES = 4


def few_rank_names(ranks: Iterable[int]) -> str:
    """Return ``rank 3``, ``ranks 0-2,5``, or ``8192 ranks (0,2,4,6 …)``."""
    listed = set(ranks)
    few = few_ranges(listed)
    return rank_names(listed) if few == rank_ranges(listed) else f"{len(listed)} ranks ({few} …)"


def few_ranges(ranks: Iterable[int]) -> str:
    """Return the first few ranges of ranks: ``0,2,4,6``."""
    return ",".join(rank_ranges(ranks).split(",")[:_RANGES])


def split_place(place: str) -> tuple[str | None, int | None]:
    """Return path and line of ``train.py:88``; None for what it lacks."""
    path, _, line = place.rpartition(":")
    return path or None, int(line) if line.isdigit() else None


def where_of(place: str, ranks: Iterable[int] = ()) -> Where:
    """Return the location of a finding: a line such as ``train.py:88``, and the ranks that it concerns."""
    path, line = split_place(place)
    listed = sorted(set(ranks))
    if len(listed) == 1:
        return Where(path=path, line=line, rank=listed[0])
    return Where(path=path, line=line, ranks=rank_ranges(listed) or None)
