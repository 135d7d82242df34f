"""Ranks with different numbers of batches in one loop.

The numbers come from ``len(loader)`` or from passes that ended. They are known before ranks with more batches wait for
the others.
"""

from __future__ import annotations

from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity, grouped_pairs, rank_names
from distcheck.core.registry import probe
from distcheck.runtime.coordination.hang_detector import is_hung
from distcheck.runtime.coordination.locations import where_of
from distcheck.runtime.coordination.model import Positions
from distcheck.runtime.coordination.sampling import Pass, Samples


@probe(rules.DC519)
def ranks_have_as_many_batches(samples: Samples, positions: Positions) -> Iterator[Finding]:
    """All ranks that train together in a loop have the same number of batches."""
    reported = set()
    for side in samples.sides():
        counts = {one.rank: one.batch_count for one in side}
        known = {rank: count for rank, count in counts.items() if count is not None}
        for one in side:  # more than another has at all
            if one.rank not in known and known and one.given > min(known.values()):
                known[one.rank] = one.given
        if (
            len(set(known.values())) < 2
            or not any(one.trains_together for one in side)
            or any(one.joined for one in side)
        ):
            continue
        first = side[0]
        if first.place in reported:
            continue
        reported.add(first.place)
        few = min(known.values())
        short = sorted(rank for rank, count in known.items() if count == few)
        # others wait for a rank that has no more batches
        stuck = bool(positions.ranks) and is_hung(positions)
        through = any(one.ended and not one.cut and one.rank in short for one in side)
        sure = all(one.bounded is False for one in side) or (stuck and through)
        yield rules.DC519.found(
            f"the ranks that train from this loader have different numbers of batches: {_counts_text(known)}"
            + ("" if sure else "; unless the loop ends earlier, the ranks with more batches wait for the others"),
            where=where_of(first.place, short),
            evidence={
                "batches": {str(rank): count for rank, count in sorted(known.items())},
                "loader": first.loader.place,
                "length": first.loader.length,
            },
            fix=Fix(_evening(first), where="code"),
            severity=Severity.ERROR if sure else Severity.INFO,
        )


def _counts_text(counts: dict[int, int]) -> str:
    ranks = grouped_pairs((count, rank) for rank, count in counts.items())
    return ", ".join(f"{count} on {rank_names(those)}" for count, those in sorted(ranks.items()))


def _evening(first: Pass) -> str:
    if first.loader.iterable:
        return "agree on the number of batches: all_reduce the count with ReduceOp.MIN, or 'with Join([ddp]):'"
    if "BatchSamplerShard" in first.sampler.types:
        return (
            "keep even_batches=True of accelerate, or 'with accelerator.join_uneven_inputs([model]):' around the loop"
        )
    own = "" if first.sampler.of_torch else first.sampler.name
    if own and first.sampler.replicas is None:
        return (
            f"let {own} cut the total to a multiple of the number of ranks before it divides, or use a "
            "DistributedSampler instead"
        )
    if first.loader.layers and first.sampler.replicas is None:
        return (
            f"cut the indices of the Subset at {first.loader.layers[0].place} to a multiple of the number of ranks "
            "before they are divided, or give the whole to a DistributedSampler"
        )
    return "use a DistributedSampler (it pads to equal length, or cuts with drop_last=True), or 'with Join([ddp]):'"
