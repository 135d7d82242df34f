"""Splits into parts for training and for evaluation that differ between ranks.

Samples that one rank trains on and another evaluates are a leak, for any kind of split.
If only one part of a random split is used before the rehearsal ends, the parts themselves are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity, grouped
from distcheck.core.registry import probe

from .locations import where_of
from .sampling import SHOWN, DividedSplit, LoaderUse, Samples, SubsetLayer, few


@probe(rules.DC733)
def splits_are_the_same(samples: Samples) -> Iterator[Finding]:
    """What one rank trains on no other rank evaluates, and a random split is the same on all ranks."""
    yield from _leaks(samples)
    yield from _differing_splits(samples)


def _leaks(samples: Samples) -> Iterator[Finding]:
    training = {(one.rank, one.loader.key) for one in samples.passes if one.trains_together}
    keys = {key for _, key in training}
    reported: set[str] = set()
    for group in samples.groups:
        cut = [one for one in samples.loaders if one.rank in group and _knows_its_part(one)]
        trained = [one for one in cut if (one.rank, one.key) in training]
        rest = [one for one in cut if one.key not in keys]
        for left in trained:
            others = [
                one for one in rest if one.rank != left.rank and one.print == left.print and _apart(left, one, cut)
            ]
            for right in others:
                both = sorted((left.layers[0].some or frozenset()) & (right.layers[0].some or frozenset()))
                place = left.layers[0].place
                if both and place not in reported:
                    reported.add(place)
                    yield _leak_finding(left, right, both, cut)


def _knows_its_part(loader: LoaderUse) -> bool:
    return bool(loader.layers) and bool(loader.layers[0].some) and loader.print is not None


def _apart(trained: LoaderUse, other: LoaderUse, loaders: Sequence[LoaderUse]) -> bool:
    """On the rank that trains, what the other rank evaluates has a counterpart, and the two share nothing."""
    mine = [one for one in loaders if one.rank == trained.rank and one.key == other.key]
    theirs = [one for one in loaders if one.rank == other.rank and one.key == trained.key]
    pairs = [(trained, one) for one in mine] + [(one, other) for one in theirs]
    return bool(pairs) and all(
        not (left.layers[0].some or frozenset()) & (right.layers[0].some or frozenset()) for left, right in pairs
    )


def _leak_finding(left: LoaderUse, right: LoaderUse, both: list[int], loaders: Sequence[LoaderUse]) -> Finding:
    layer = left.layers[0]
    counterpart = next((one for one in loaders if one.rank == right.rank and one.key == left.key), right)
    return rules.DC733.found(
        f"rank {left.rank} trains on samples that rank {right.rank} has in {right.place} and does not train on "
        f"({few(both)}): the split differs between ranks",
        where=where_of(layer.place, sorted({one.rank for one in loaders if layer.place in _places(one)})),
        evidence={
            f"rank {left.rank}": list(layer.first),
            f"rank {right.rank}": list(counterpart.layers[0].first),
            "in_both": both[:SHOWN],
        },
        fix=_one_split(layer),
    )


def _places(loader: LoaderUse) -> list[str]:
    return [layer.place for layer in loader.layers]


def _one_split(layer: SubsetLayer) -> Fix:
    if layer.maker == "random_split":
        text = (
            "give random_split a generator whose seed is the same on all ranks"
            if layer.seeded
            else "add generator=torch.Generator().manual_seed(0), or another seed that all ranks share"
        )
    else:
        text = "make the order of the indices from a generator whose seed all ranks share, or broadcast that of rank 0"
    return Fix(text, where="code")


def _differing_splits(samples: Samples) -> Iterator[Finding]:
    """Splits of which only one part is used before the rehearsal ends."""
    reported = {f"{finding.where.path}:{finding.where.line}" for finding in _leaks(samples)}
    by_key: dict[Any, list[LoaderUse]] = {}
    for loader in samples.loaders:
        layer = _random_layer(loader)
        if layer is not None and not layer.seeded and loader.print is not None:
            by_key.setdefault((loader.key, layer.place), []).append(loader)
    training = {one.loader.key for one in samples.passes if one.trains_together}
    for (key, place), loaders in by_key.items():
        for group in samples.groups:
            those = [one for one in loaders if one.rank in group]
            layers = [layer for one in those if (layer := _random_layer(one)) is not None]
            if len(those) < 2 or key not in training or place in reported:
                continue
            if len({one.print for one in those}) > 1 or len({(one.base_length, len(one.layers)) for one in those}) > 1:
                continue
            if len({layer.digest for layer in layers}) > 1 and _from_one_whole(those):
                reported.add(place)
                yield _split_finding([one.rank for one in those], layers, place)
    yield from _splits_of_samplers(samples, reported)
    yield from _scikit_splits(samples)


def _split_finding(ranks: Sequence[int], layers: Sequence[SubsetLayer], place: str) -> Finding:
    other = next(number for number, layer in enumerate(layers) if layer.digest != layers[0].digest)
    return rules.DC733.found(
        f"the random split differs between ranks: {few(layers[0].first)} first on rank {ranks[0]}, "
        f"{few(layers[other].first)} on rank {ranks[other]}",
        where=where_of(place, ranks),
        evidence={f"rank {ranks[number]}": list(layers[number].first) for number in (0, other)},
        fix=_one_split(layers[0]),
    )


def _splits_of_samplers(samples: Samples, reported: set[str]) -> Iterator[Finding]:
    """Splits whose part a DistributedSampler divides among ranks that hold other parts."""
    for of_line in grouped(samples.divided, lambda one: one.key).values():
        those = sorted(of_line, key=lambda one: one.rank)
        layers = [layer for one in those if (layer := _random_layer(one)) is not None]
        if len(layers) < len(those) or layers[0].seeded or layers[0].place in reported:
            continue
        # each rank takes its own part of one whole
        parts = {one.part for one in those}
        if len(those) < 2 or len({one.replicas for one in those}) > 1 or None in parts or len(parts) < len(those):
            continue
        if len({(one.print, one.base_length, len(one.layers)) for one in those}) > 1 or not _from_one_whole(those):
            continue
        if len({layer.digest for layer in layers}) > 1:
            reported.add(layers[0].place)
            yield _split_finding([one.rank for one in those], layers, layers[0].place)


def _random_layer(loader: LoaderUse | DividedSplit) -> SubsetLayer | None:
    return next((one for one in loader.layers if one.maker == "random_split" and one.digest is not None), None)


def _from_one_whole(loaders: Sequence[LoaderUse | DividedSplit]) -> bool:
    """What was split is not a part of this rank's own: nothing, or the same, lies below the split."""
    below = set()
    for one in loaders:
        place = one.layers.index(_random_layer(one) or one.layers[0])
        below.add(tuple(layer.digest for layer in one.layers[place + 1 :]))
    return len(below) == 1


def _scikit_splits(samples: Samples) -> Iterator[Finding]:
    for splits in grouped(samples.splits, lambda split: split.key).values():
        for group in samples.groups:
            those = [one for one in splits if one.rank in group and one.given is not None and one.train is not None]
            other = next((one for one in those if one.train != those[0].train), None)
            if other is None or len({one.given for one in those}) > 1:
                continue
            used = {
                one.loader.rank for one in samples.passes if one.trains_together and one.loader.split == other.place
            }
            yield rules.DC733.found(
                f"train_test_split gives each rank a part of its own: it begins with {few(those[0].first)} on rank "
                f"{those[0].rank} and with {few(other.first)} on rank {other.rank}",
                where=where_of(other.place, [one.rank for one in those]),
                evidence={f"rank {one.rank}": list(one.first) for one in (those[0], other)},
                fix=Fix("add random_state=0, or another number that all ranks share", where="code"),
                # one rank's part may be sent to all afterwards
                severity=Severity.WARNING if len(used) > 1 else Severity.INFO,
            )
            break
