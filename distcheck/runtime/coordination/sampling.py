"""Which samples the ranks got, from the rows of all ranks: a fact of loaders and the passes over them.

A loader is the same on two ranks if the same lines made it, as the n-th one there.
Nothing is judged here; the probes are in :mod:`.sample_checks`, :mod:`.epochs` and :mod:`.splits`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from distcheck.core.model import Where, rank_names

from .locations import where_of
from .logged_events import LoggedEvent, fill

#: Samples that a message shows.
SHOWN = 8
#: Why ranks may read the same: they send each other parts.
EXCHANGE = "all_to_all"
#: ``(lines, innermost first; how many were made there before)``
Key = tuple[tuple[str, ...], int]


class Batch(NamedTuple):
    """One batch that a rank was given."""

    #: of the first samples, as seen from below all subsets; None where the data set has no indices
    ids: tuple[Any, ...] | None
    #: digests of its parts: a tuple with one for each of the first samples, or one for the whole; None: not read
    leaves: tuple[Any, ...] = ()
    #: samples in it
    size: int = 0


class Sampler(NamedTuple):
    """The attributes of the samplers of a loader."""

    #: names of their classes, outermost first
    types: tuple[str, ...] = ()
    of_torch: bool = True
    #: class of the one that has ``set_epoch``
    epoch_setter: str = ""
    #: where that was made
    place: str = ""
    epoch: int | None = None
    shuffle: bool | None = None
    seed: int | None = None
    #: parts that it divides the data into, and which is this rank's
    replicas: int | None = None
    part: int | None = None
    replacement: bool = False
    #: class of the script's own that draws an order whenever it is iterated
    shuffler: str = ""
    #: a class of the script's own draws or ranks samples, rather than to divide them
    chooses: bool = False

    @property
    def name(self) -> str:
        """The class that a reader of the script knows."""
        own = [name for name in self.types if name != "BatchSampler"]
        return own[0] if own else "sampler"


class SubsetLayer(NamedTuple):
    """A subset around the data."""

    place: str = ""
    #: ``random_split`` or ``Subset``
    maker: str = "Subset"
    #: with a generator of its own
    seeded: bool = False
    length: int | None = None
    first: tuple[int, ...] = ()
    digest: int | None = None
    #: some of its indices, chosen alike on all ranks; None: not known
    some: frozenset[int] | None = None


class LoaderUse(NamedTuple):
    """A loader of one rank."""

    rank: int
    key: Key
    place: str = ""
    function: str = ""
    #: made by a library from one of the script's, or for it
    of_library: bool = False
    iterable: bool = False
    #: classes of its data set, and of what is below subsets and wrappers
    dataset: str = ""
    base: str = ""
    length: int | None = None
    base_length: int | None = None
    #: digest of what the data set holds; None where that does not show which data it is
    print: str | None = None
    #: the same of the paths, names and contents alone
    held: str | None = None
    #: outermost first
    layers: tuple[SubsetLayer, ...] = ()
    sampler: Sampler = Sampler()
    #: where scikit-learn split what it holds
    split: str = ""
    libraries: tuple[str, ...] = ()


class Pass(NamedTuple):
    """One pass of one rank over a loader."""

    rank: int
    loader: LoaderUse
    #: passes over this loader before it
    number: int = 0
    #: ``len(loader)``; None: not known
    length: int | None = None
    #: the ``for`` statement, or the line that requested it
    place: str = ""
    function: str = ""
    #: the loop may end before the batches do; None: not known
    bounded: bool | None = None
    #: under ``Join``
    joined: bool = False
    #: parallelism under which ranks may see the same data on purpose
    unsplit: tuple[str, ...] = ()
    sampler: Sampler = Sampler()
    batches: tuple[Batch, ...] = ()
    #: batches that it gave, those that a backward pass followed, and those where that fed a data-parallel wrapper
    given: int = 0
    trained: int = 0
    fed: int = 0
    #: it had no more batches; ``cut``: because no more were wanted in a rehearsal
    ended: bool = False
    cut: bool = False
    began_s: float = 0.0
    last_s: float = 0.0

    @property
    def trains(self) -> bool:
        """A backward pass follows its batches."""
        return _most(self.trained, self.given)

    @property
    def trains_together(self) -> bool:
        """A backward pass that feeds a data-parallel wrapper follows its batches."""
        return _most(self.fed, self.given)

    @property
    def batch_count(self) -> int | None:
        """The number of batches; None if neither ``len`` nor the end of the pass gave it."""
        return self.given if self.ended and not self.cut else self.length


def _most(followed: int, given: int) -> bool:
    return followed > 0 and 2 * followed + 1 >= given


class Split(NamedTuple):
    """A split by scikit-learn."""

    rank: int
    key: Key
    place: str
    given: str | None
    train: str | None
    first: tuple[str, ...] = ()
    stated: bool = False


class DividedSplit(NamedTuple):
    """A part of a data set that a sampler of one rank divides among ranks."""

    rank: int
    #: line of the sampler, and how many were made there before
    key: Key
    place: str
    print: str | None
    base_length: int | None
    layers: tuple[SubsetLayer, ...]
    #: parts, and which is this rank's
    replicas: int | None
    part: int | None


class Samples(NamedTuple):
    """The samples of all ranks."""

    loaders: tuple[LoaderUse, ...] = ()
    #: in the order of time
    passes: tuple[Pass, ...] = ()
    splits: tuple[Split, ...] = ()
    divided: tuple[DividedSplit, ...] = ()
    #: ranks that train one model, each from a part of the data
    groups: tuple[tuple[int, ...], ...] = ()
    #: ranks that get the same data on purpose; all ranks if unknown
    twins: tuple[frozenset[int], ...] = ()
    #: those of them that only send each other parts by ``all_to_all``
    exchanging: tuple[frozenset[int], ...] = ()

    def sides(self) -> Iterator[tuple[Pass, ...]]:
        """Passes of ranks of one group over one loader that belong together: one of each rank, two ranks at least."""
        together: dict[tuple[Key, int], dict[int, Pass]] = {}
        for one in self.passes:
            together.setdefault((one.loader.key, one.number), {}).setdefault(one.rank, one)
        for by_rank in together.values():
            for group in self.groups:
                found = tuple(by_rank[rank] for rank in group if rank in by_rank)
                if len(found) > 1:
                    yield found

    def apart(self, passes: tuple[Pass, ...]) -> tuple[Pass, ...]:
        """Those of ranks that should have data of their own: one of each set of twins."""
        kept: list[Pass] = []
        for one in passes:
            if not any(one.rank in pair and other.rank in pair for pair in self.twins for other in kept):
                kept.append(one)
        return tuple(kept)

    def unchecked(self) -> str:
        """Return which ranks were not compared because they call ``all_to_all``; "" if there are none."""
        for side in self.sides():
            if not any(one.trains_together for one in side):
                continue
            compared = {one.rank for one in self.apart(side)}
            ranks = {one.rank for one in side}
            for exchanging in self.exchanging:
                if len(exchanging & ranks) > 1 and not exchanging & ranks <= compared:
                    who = rank_names(exchanging)
                    return f"{who} send each other parts by all_to_all, and may read the same on purpose"
        return ""


def samples_of(rows: Iterable[LoggedEvent], world_size: int) -> Samples:
    """Return what the rows of all ranks show; rows of other topics do not matter."""
    mine = [row for row in rows if row.kind.startswith("samples.")]
    loaders: dict[tuple[int, int], LoaderUse] = {}
    made: dict[tuple[int, tuple[str, ...]], int] = {}
    for row in _of(mine, "samples.loader"):
        if row.rank is not None:
            loaders[row.pid, row.data["loader"]] = _loader(row, row.rank, loaders, made)
    passes = tuple(_passes(mine, loaders))
    wrapped = {tuple(row.data["ranks"]) for row in _of(mine, "samples.wrapped")}
    of_twins = _of(mine, "samples.twins")
    twins = [frozenset(row.data["ranks"]) for row in of_twins]
    exchanging = {frozenset(row.data["ranks"]) for row in of_twins if row.data.get("how") == EXCHANGE}
    if any(one.unsplit for one in passes):
        twins.append(frozenset(range(world_size)))
    groups = sorted(group for group in wrapped if len(group) > 1)
    return Samples(
        tuple(loaders.values()), passes, tuple(_splits(mine)), tuple(_divided(mine)), tuple(groups),
        tuple(dict.fromkeys(twins)), tuple(sorted(exchanging, key=min)),
    )  # fmt: skip


def _of(rows: Iterable[LoggedEvent], kind: str) -> list[LoggedEvent]:
    return [row for row in rows if row.kind == kind]


def _loader(
    row: LoggedEvent,
    rank: int,
    loaders: Mapping[tuple[int, int], LoaderUse],
    made: dict[tuple[int, tuple[str, ...]], int],
) -> LoaderUse:
    data = row.data
    origin = loaders.get((row.pid, data["of"])) if data["of"] is not None else None
    lines = tuple(data["chain"])
    place, function = row.place, row.function
    if origin is not None:
        # what a framework makes of a loader stands where the script made that
        lines, place, function = (*origin.key[0], "prepared"), origin.place, origin.function
        if origin.key[0][-1:] == ("prepared",):
            lines = origin.key[0]
    count = made[rank, lines] = made.get((rank, lines), -1) + 1
    return row.fill(
        LoaderUse,
        key=(lines, count),
        place=place,
        function=function,
        layers=tuple(_layer(layer) for layer in data["layers"]),
        sampler=_sampler(data["sampler"]),
    )


def _layer(data: Mapping[str, Any]) -> SubsetLayer:
    some = None if data["some"] is None else frozenset(data["some"])
    return fill(SubsetLayer, {**data, "first": data["first"] or (), "some": some})


def _sampler(data: Mapping[str, Any]) -> Sampler:
    return fill(Sampler, data)


def _passes(rows: Iterable[LoggedEvent], loaders: Mapping[tuple[int, int], LoaderUse]) -> Iterator[Pass]:
    begun: dict[tuple[int, int], LoggedEvent] = {}
    later: dict[tuple[int, int], list[LoggedEvent]] = {}
    for row in rows:
        if row.rank is None or "number" not in row.data:
            continue
        key = (row.pid, row.data["number"])
        if row.kind == "samples.pass":
            begun[key] = row
        else:
            later.setdefault(key, []).append(row)
    numbers: dict[tuple[int, Key], int] = {}
    for key, row in begun.items():
        loader = loaders.get((row.pid, row.data["loader"]))
        if loader is None or row.rank is None:
            continue
        number = numbers[row.rank, loader.key] = numbers.get((row.rank, loader.key), -1) + 1
        yield _pass(row, loader, number, later.get(key, []))


def _pass(row: LoggedEvent, loader: LoaderUse, number: int, later: list[LoggedEvent]) -> Pass:
    data = row.data
    batches = [one for one in later if one.kind == "samples.batch"]
    sums = [one for one in later if one.kind in ("samples.end", "samples.open")]
    trained, fed = (max((int(one.data.get(name, 0)) for one in later), default=0) for name in ("trained", "fed"))
    given = [one.data["given"] for one in sums] + [one.data["index"] + 1 for one in batches]
    return row.fill(
        Pass,
        loader=loader,
        number=number,
        place=data["loop"] or row.place,
        sampler=_sampler(data["sampler"]),
        batches=tuple(_batch(one.data) for one in batches),
        given=max(given, default=0),
        trained=trained,
        fed=fed,
        ended=any(one.kind == "samples.end" for one in sums),
        cut=any(one.data["cut"] for one in sums),
        began_s=row.at_s,
        last_s=max((one.at_s for one in batches), default=row.at_s),
    )


def _batch(data: Mapping[str, Any]) -> Batch:
    leaves = tuple(tuple(leaf) if isinstance(leaf, list) else leaf for leaf in data["leaves"])
    return Batch(None if data["ids"] is None else tuple(data["ids"]), leaves, data["count"])


def _divided(rows: Iterable[LoggedEvent]) -> Iterator[DividedSplit]:
    made: dict[tuple[int, str], int] = {}
    for row in _of(rows, "samples.divided"):
        if row.rank is not None:
            count = made[row.rank, row.place] = made.get((row.rank, row.place), -1) + 1
            layers = tuple(_layer(layer) for layer in row.data["layers"])
            yield row.fill(DividedSplit, key=((row.place,), count), layers=layers)


def _splits(rows: Iterable[LoggedEvent]) -> Iterator[Split]:
    made: dict[tuple[int, str], int] = {}
    for row in _of(rows, "samples.split"):
        if row.rank is None:
            continue
        count = made[row.rank, row.place] = made.get((row.rank, row.place), -1) + 1
        yield row.fill(Split, key=((row.place,), count))


# for messages


def numbers(one: Pass) -> list[Any]:
    """The samples of the first batches of a pass, in their order."""
    return [number for batch in one.batches for number in batch.ids or ()]


def few(items: Sequence[Any]) -> str:
    """The first of them."""
    shown = ", ".join(str(item) for item in items[:SHOWN])
    return f"{shown}, …" if len(items) > SHOWN else shown


def sort_key(item: Any) -> tuple[int, Any]:
    """Numbers by their value, before whatever else a sampler may give."""
    return (0, item) if isinstance(item, int) else (1, str(item))


def where_of_passes(place: str, passes: Iterable[Pass]) -> Where:
    """A line, and the ranks of passes."""
    return where_of(place, (one.rank for one in passes))
