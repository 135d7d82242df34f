"""Ranks that should divide the data, and get the same samples.

A few batches decide: equal indices over the same data are no coincidence, and a random order without division covers
all of it. The contents of the batches, or else of the data sets, show whether the data are the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, pairwise
from typing import Any

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity, rank_ranges
from distcheck.core.registry import probe

from .sampling import SHOWN, LoaderUse, Pass, Samples, few, numbers, sort_key, where_of_passes

#: Names of synthetic data sets of benchmarks and tests.
_MADE_UP = re.compile(r"dummy|fake|synthetic|mock|toy", re.I)
#: Numbers of different samples above which equal samples are no padding, and certainly no coincidence.
_SUSPICIOUS, _SURE = 4, 16
#: Samples of several ranks in shares of which none repeats a sample: as many repeats are likely with replacement.
_LEAST_SHARED = 8
_RANDOM = ("RandomSampler", "SeedableRandomSampler")


# every rank the same


@probe(rules.DC732, rules.DC735)
def ranks_draw_samples_of_their_own(samples: Samples) -> Iterator[Finding]:
    """Ranks that train one model, each on a part of the data, get different samples."""
    reported: set[tuple[Any, ...]] = set()
    for side in samples.sides():
        apart = samples.apart(side)
        if len(apart) < 2 or not any(one.trains_together for one in apart):
            continue
        apart = tuple(one for one in apart if one.batches)
        key = (apart[0].loader.place, apart[0].loader.key[0]) if apart else ()
        if len(apart) < 2 or key in reported:
            continue
        finding = _the_same(apart)
        if finding is not None:
            reported.add(key)
            # the name alone shows that nothing depends on these data; a sampler for several ranks should divide them
            made_up = apart[0].sampler.replicas is None and _MADE_UP.search(
                apart[0].loader.base + apart[0].loader.dataset
            )
            yield finding._replace(severity=Severity.INFO) if made_up else finding


def _the_same(side: Sequence[Pass]) -> Finding | None:
    if len({one.loader.held for one in side} - {None}) > 1:
        return None  # the script gives each rank other files, whatever is in them
    if any(one.loader.iterable for one in side):
        return _iterable_finding(side) if all(_held_alike(side[0], one) is True for one in side[1:]) else None
    alike = _alike(side)
    if any(len(ranks) > 1 for ranks in alike):
        group = max(alike, key=len)
        if len(group) == len(side) or not _are_divided(side):
            return _judge_equal(side, group)
        return None
    return _judge_seeds(side) or _judge_random(side) or _judge_steps(side) or _judge_orders(side)


def _alike(side: Sequence[Pass]) -> list[list[Pass]]:
    """Passes that drew the same in the same order, as far as both were seen."""
    groups: list[list[Pass]] = []
    for one in side:
        for group in groups:
            if _sampled_alike(group[0], one):
                group.append(one)
                break
        else:
            groups.append([one])
    return groups


def _sampled_alike(one: Pass, other: Pass) -> bool:
    mine, theirs = numbers(one), numbers(other)
    common = min(len(mine), len(theirs))
    return common > 0 and mine[:common] == theirs[:common]


def _are_divided(side: Sequence[Pass]) -> bool:
    """Return whether the samplers give each rank another part."""
    parts = [one.sampler.part for one in side]
    return None not in parts and len(set(parts)) == len(side)


def _held_alike(one: Pass, other: Pass) -> bool | None:
    """Whether batches held the same: some part that is not always the same was equal in all; None: unknown."""
    common = list(zip(one.batches, other.batches, strict=False))
    if not common:
        return None
    width = min(len(batch.leaves) for pair in common for batch in pair)
    varied = False
    for leaf in range(width):
        mine = [batch.leaves[leaf] for batch, _ in common]
        theirs = [batch.leaves[leaf] for _, batch in common]
        seen = {part for value in mine for part in (value if isinstance(value, tuple) else (value,))}
        if None in seen or len(seen) < 2:
            continue
        varied = True
        if mine == theirs and len(seen) >= min(_SUSPICIOUS, sum(batch.size for batch, _ in common)):
            return True
        if mine == theirs and sum(batch.size for batch, _ in common) >= _SURE:
            return True
    return False if varied else None


def _same_data(side: Sequence[Pass], held: Iterable[bool | None]) -> Severity | None:
    """How sure it is that the ranks' data sets are one; None: they may be different parts."""
    if all(item is True for item in held):
        return Severity.ERROR
    prints = {one.loader.print for one in side}
    return Severity.WARNING if len(prints) == 1 and None not in prints else None


def _judge_equal(side: Sequence[Pass], group: Sequence[Pass]) -> Finding | None:
    """Ranks that drew the same samples in the same order."""
    severity = _same_data(group, [_held_alike(group[0], one) for one in group[1:]])
    if severity is None:
        return None
    first = group[0]
    if not _has_no_division(group):
        different = len({str(number) for one in group for number in numbers(one)})
        if different < _SUSPICIOUS or (_are_divided(side) and different < _SURE):
            return None  # so few that repeats for the sake of equal length explain them
        severity = severity if different >= _SURE else Severity.WARNING
    count = min(len(numbers(one)) for one in group)
    who = f"ranks {rank_ranges(one.rank for one in group)}"
    return rules.DC732.found(
        f"{who} draw the same samples from this loader, in the same order ({few(numbers(first)[:count])})",
        where=where_of_passes(first.loader.place, group),
        evidence={**_evidence(group), "samples": count, "loop": first.place, "sampler": _sampler_text(first)},
        fix=Fix(_division(first, side, group), where="code"),
        severity=severity,
    )


def _has_no_division(side: Sequence[Pass]) -> bool:
    """Return whether the samplers do not divide: torch's without ranks, or all with the same part."""
    sampler = side[0].sampler
    if sampler.replicas is not None:
        return len({one.sampler.part for one in side}) == 1
    return sampler.types[-1:] in [("RandomSampler",), ("SequentialSampler",)] and sampler.of_torch


def _judge_seeds(side: Sequence[Pass]) -> Finding | None:
    """Ranks whose samplers each take a share of another order, so that the shares overlap."""
    samplers = [one.sampler for one in side]
    orders = [(sampler.seed, sampler.epoch) for sampler in samplers]
    alike = len({(sampler.replicas, sampler.shuffle, sampler.of_torch) for sampler in samplers}) == 1
    if not alike or not samplers[0].shuffle or not samplers[0].of_torch or not _are_divided(side):
        return None
    if len(set(orders)) == 1 or len({(one.loader.length, one.loader.base_length) for one in side}) > 1:
        return None
    shared, severity = _in_common(side)
    if not shared or severity is None or not all(_have_much_in_common(side[0].loader, one.loader) for one in side[1:]):
        return None
    first, what = side[0], "seed" if len({seed for seed, _ in orders}) > 1 else "epoch"
    other = next(one for one in side if (one.sampler.seed, one.sampler.epoch) != orders[0])
    values = [f"{getattr(one.sampler, what)} on rank {one.rank}" for one in (first, other)]
    call = "the same seed" if what == "seed" else "the same number in set_epoch()"
    return rules.DC732.found(
        f"the {first.sampler.epoch_setter} of each rank takes its share of another order "
        f"({what} {' and '.join(values)}), so the shares overlap: two or more ranks got {few(shared)}",
        where=where_of_passes(first.sampler.place or first.loader.place, side),
        evidence={**_evidence(side), what: {f"rank {one.rank}": getattr(one.sampler, what) for one in (first, other)}},
        fix=Fix(f"give the {first.sampler.epoch_setter} {call} on all ranks; its rank divides the data", where="code"),
        severity=severity,
    )


def _judge_random(side: Sequence[Pass]) -> Finding | None:
    """Ranks that each draw from all of the data, in an order of their own."""
    for one in side:
        if one.sampler.replicas is not None or one.sampler.types[-1:] not in [(name,) for name in _RANDOM]:
            return None
        if one.sampler.replacement or not all(name in ("BatchSampler", *_RANDOM) for name in one.sampler.types):
            return None
    first = side[0]
    if len({(one.loader.length, one.loader.base_length) for one in side}) > 1 or first.loader.length is None:
        return None
    if not all(_have_much_in_common(first.loader, one.loader) for one in side[1:]):
        return None  # subsets of their own
    shared, severity = _in_common(side)
    if severity is None:
        return None
    total = first.loader.length
    both = f"; two or more ranks got {few(shared)}" if shared else ""
    return rules.DC732.found(
        f"every rank samples from all {total} samples, each in a different order{both}",
        where=where_of_passes(first.loader.place, side),
        evidence={**_evidence(side), "length": total, "loop": first.place, "sampler": _sampler_text(first)},
        fix=Fix(_division(first, side, side), where="code"),
        severity=severity,
    )


def _judge_steps(side: Sequence[Pass]) -> Finding | None:
    """Ranks that each read every n-th sample, where two of them begin at the same remainder."""
    read = [numbers(one) for one in side]
    if any(len(mine) < _SUSPICIOUS or not all(isinstance(number, int) for number in mine) for mine in read):
        return None
    step = read[0][1] - read[0][0]
    if step < len(side) or any(later - number != step for mine in read for number, later in pairwise(mine)):
        return None
    shared, severity = _in_common(side)
    if not shared or severity is None:
        return None
    first = side[0]
    begins = " and ".join(f"{mine[0]} on rank {one.rank}" for one, mine in list(zip(side, read, strict=True))[:2])
    return rules.DC732.found(
        f"ranks read samples in steps of {step}, beginning at {begins}, so the shares overlap: two or more ranks got "
        f"{few(shared)}",
        where=where_of_passes(first.loader.place, side),
        evidence={**_evidence(side), "loop": first.place, "sampler": _sampler_text(first)},
        fix=Fix(
            f"let {first.sampler.name} begin at a number that all ranks share, plus the rank: after a restart, what "
            "all ranks together have read",
            where="code",
        ),
        severity=Severity.WARNING,
    )


def _judge_orders(side: Sequence[Pass]) -> Finding | None:
    """Ranks with a sampler of the script's own that each take a share, or all, of another order of the same data.

    A sampler with replacement gives a rank the same sample again. One that chooses some of the data gives another
    number of samples, or the functions that it calls show it. Samples that pad a share are in its last batch.
    """
    first, total, count = side[0], side[0].loader.length, side[0].batch_count
    full = [one._replace(batches=one.batches[:-1]) for one in side]
    if any(one.sampler.of_torch or one.sampler.replacement for one in side) or total is None or count is None:
        return None
    if len({(one.batch_count, one.loader.length, one.batches[0].size) for one in side}) > 1:
        return None
    if any(len(set(read)) < len(read) for read in map(numbers, full)):
        return None
    size = first.batches[0].size
    share = count * size
    whole = abs(share - total) < size
    chooses = any(one.sampler.chooses for one in side)
    if not whole and (chooses or abs(share * len(side) - total) >= size * len(side)):
        return None
    shared, severity = _in_common(full)
    if len(shared) < _LEAST_SHARED or severity is None:
        return None
    if not all(_have_much_in_common(first.loader, one.loader) for one in side[1:]):
        return None
    part = f"all {total} samples" if whole else f"its share of {total} samples"
    return rules.DC732.found(
        f"{first.sampler.name} gives each rank {part} in an order of its own, each sample once, so two or more ranks "
        f"got {few(shared)}",
        where=where_of_passes(first.loader.place, side),
        evidence={**_evidence(side), "loop": first.place, "sampler": _sampler_text(first)},
        fix=Fix(_division(first, side, side), where="code"),
        severity=Severity.WARNING,
    )


def _in_common(side: Sequence[Pass]) -> tuple[list[Any], Severity | None]:
    """Return samples that two ranks drew, and how sure it is that they are the same there; None: they may differ."""
    common = [_common(one, other) for one, other in combinations(side, 2)]
    shared = sorted({number for numbers, _ in common for number in numbers}, key=sort_key)
    if any(equal is False for _, equal in common):
        return shared, None  # the same number is another sample there
    return shared, Severity.ERROR if any(equal for _, equal in common) else _same_data(side, [None])


def _have_much_in_common(one: LoaderUse, other: LoaderUse) -> bool:
    """Whether two loaders draw from one part of the data, or from parts that overlap: splits that differ."""
    if [layer.digest for layer in one.layers] == [layer.digest for layer in other.layers]:
        return True
    if not one.layers or not other.layers:
        return False
    mine, theirs = one.layers[0].some or frozenset(), other.layers[0].some or frozenset()
    return 2 * len(mine & theirs) > max(len(mine), len(theirs))


def _common(one: Pass, other: Pass) -> tuple[list[Any], bool | None]:
    """Samples that two ranks drew, and whether they were the same there; None where that was not seen."""
    mine, theirs = _contents(one), _contents(other)
    numbers = [number for number in mine if number in theirs]
    verdicts = set()
    width = min((len(mine[number]) for number in numbers), default=0)
    for leaf in range(width):
        pairs = [(mine[number][leaf], theirs[number][leaf]) for number in numbers if leaf < len(theirs[number])]
        seen = {left for left, _ in pairs}
        if None not in seen and (len(seen) > 1 or width == 1):
            verdicts.add(all(left == right for left, right in pairs))
    if not verdicts:
        return numbers, None
    return numbers, True in verdicts


def _contents(one: Pass) -> dict[Any, list[Any]]:
    """What each sample held, part by part; None for a part that is not made of samples."""
    found: dict[Any, list[Any]] = {}
    for batch in one.batches:
        for place, number in enumerate(batch.ids or ()):
            found[number] = [
                leaf[place] if isinstance(leaf, tuple) and place < len(leaf) else None for leaf in batch.leaves
            ]
    return found


def _division(first: Pass, side: Sequence[Pass], group: Sequence[Pass]) -> str:
    """Return the fix for a loader that does not divide."""
    sampler, libraries = first.sampler, first.loader.libraries
    if sampler.replicas is not None:
        shard = f"rank {sampler.part} of {sampler.replicas}"
        return (
            f"the {sampler.name} is {shard} on ranks {rank_ranges(one.rank for one in group)}: give it "
            f"num_replicas=dist.get_world_size() and rank=dist.get_rank(), or neither"
        )
    if "accelerate" in libraries and not first.loader.of_library:
        return "loader = accelerator.prepare(loader): each rank then gets its part, in a new order in each epoch"
    if "lightning" in libraries or "pytorch_lightning" in libraries:
        return "keep use_distributed_sampler=True of the Trainer, or give this loader a DistributedSampler"
    if sampler.types[-1:] == ("RandomSampler",):
        return "sampler=DistributedSampler(dataset) instead of shuffle=True, and sampler.set_epoch(epoch) in each epoch"
    if sampler.types[-1:] == ("SequentialSampler",):
        return "sampler=DistributedSampler(dataset), with shuffle=False to keep the order"
    return f"let {sampler.name} give each rank its part: indices[rank::world_size] of an order that all share"


def _sampler_text(one: Pass) -> str:
    return " of ".join(one.sampler.types)


def _iterable_finding(side: Sequence[Pass]) -> Finding | None:
    count = min(len(one.batches) for one in side)
    if count * max(side[0].batches[0].size, 1) < _SUSPICIOUS:
        return None
    return rules.DC735.found(
        f"{side[0].loader.dataset} gives all ranks the same items: their first {count} batches are equal",
        where=where_of_passes(side[0].loader.place, side),
        evidence={"batches": count, "ranks": rank_ranges(one.rank for one in side), "loop": side[0].place},
        fix=Fix(
            "divide by rank and worker in __iter__(): itertools.islice(items, rank * workers + worker, None, "
            "world_size * workers)",
            where="code",
        ),
    )


def _evidence(side: Sequence[Pass]) -> dict[str, Any]:
    return {f"rank {one.rank}": numbers(one)[:SHOWN] for one in (side[0], side[1])}
