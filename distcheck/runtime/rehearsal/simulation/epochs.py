"""Passes over a loader: the same order in every epoch, and ranks with different numbers of batches.

The numbers come from ``len(loader)`` or from passes that ended. They are known before ranks with more batches wait for
the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity, rank_names
from distcheck.core.registry import probe
from distcheck.runtime.coordination.hang_detector import is_hung
from distcheck.runtime.coordination.locations import where_of
from distcheck.runtime.coordination.model import Positions

from .sampling import SHOWN, LoaderUse, Pass, Samples, few, numbers, sort_key

# every epoch the same


@probe(rules.DC730)
def epochs_differ(samples: Samples) -> Iterator[Finding]:
    """A sampler that shuffles gives another order in the next epoch."""
    found: dict[tuple[str, str], list[tuple[Pass, Pass]]] = {}
    for first, second in _epochs(samples):
        if _in_the_same_order(first, second):
            found.setdefault((first.sampler.place or first.loader.place, first.place), []).append((first, second))
    for (place, loop), pairs in found.items():
        first, second = pairs[0]
        epoch = second.sampler.epoch
        still = f", and its epoch is still {epoch}" if epoch is not None else ""
        ranks = sorted({one.rank for one, _ in pairs})
        yield rules.DC730.found(
            f"epochs {first.number + 1} and {second.number + 1} have the same order ({few(numbers(second))}): the "
            f"{first.sampler.epoch_setter} does not get the number of the epoch{still}",
            where=where_of(place, ranks),
            evidence={
                "first": numbers(first)[:SHOWN],
                "second": numbers(second)[:SHOWN],
                "rank": first.rank,
                "epoch": epoch,
                "loop": loop,
            },
            fix=Fix(
                f"loader.sampler.set_epoch(epoch) in each epoch, before the loop at {loop}",
                where="code",
                risk="the order of the data changes, and with it the results",
            ),
        )


def _epochs(samples: Samples) -> Iterator[tuple[Pass, Pass]]:
    """Passes of one rank that follow each other over one loader, or over one that is made again in each epoch."""
    of_loader: dict[tuple[Any, ...], list[Pass]] = {}
    for one in samples.passes:
        loader = one.loader
        same = (one.rank, loader.key[0], loader.dataset, loader.length, loader.print, _digests(loader))
        if one.trains and one.batches and one.sampler.epoch_setter:
            of_loader.setdefault(same, []).append(one)
    for passes in of_loader.values():
        for number, first in enumerate(passes):
            following = [one for one in passes[number + 1 :] if one.began_s >= first.last_s]
            if following:
                yield first, following[0]


def _digests(loader: LoaderUse) -> tuple[int | None, ...]:
    return tuple(layer.digest for layer in loader.layers)


def _in_the_same_order(first: Pass, second: Pass) -> bool:
    sampler, later = first.sampler, second.sampler
    if sampler.shuffle is False or (sampler.epoch, sampler.seed) != (later.epoch, later.seed):
        return False
    mine, theirs = numbers(first), numbers(second)
    common = min(len(mine), len(theirs))
    if not common or mine[:common] != theirs[:common]:
        return False
    if sampler.shuffle is True and sampler.epoch_setter.startswith("DistributedSampler"):
        return len(set(mine)) > 1
    # whether another class shuffles is seen in what it gave
    return len(set(mine[:common])) >= SHOWN and mine[:common] != sorted(mine[:common], key=sort_key)


# different numbers of batches


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
    ranks: dict[int, list[int]] = {}
    for rank, count in counts.items():
        ranks.setdefault(count, []).append(rank)
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
