"""Passes over a loader that give the same order in every epoch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from distcheck import rules
from distcheck.core.model import Finding, Fix
from distcheck.core.registry import probe

from .locations import where_of
from .sampling import SHOWN, LoaderUse, Pass, Samples, few, numbers, sort_key


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
        why = f"the {first.sampler.epoch_setter} does not get the number of the epoch{still}"
        fix = f"loader.sampler.set_epoch(epoch) in each epoch, before the loop at {loop}"
        if not first.sampler.epoch_setter:
            why = f"the {first.sampler.shuffler} shuffles with the same random numbers in each epoch"
            fix = f"seed the generator of the {first.sampler.shuffler} with seed + epoch, equal on all ranks"
        yield rules.DC730.found(
            f"epochs {first.number + 1} and {second.number + 1} have the same order ({few(numbers(second))}): {why}",
            where=where_of(place, ranks),
            evidence={
                "first": numbers(first)[:SHOWN],
                "second": numbers(second)[:SHOWN],
                "rank": first.rank,
                "epoch": epoch,
                "loop": loop,
            },
            fix=Fix(
                fix,
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
        if one.trains and one.batches and (one.sampler.epoch_setter or one.sampler.shuffler):
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
