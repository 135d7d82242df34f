"""Names the root cause of a slow group: a rank that computes slowly or arrives late, a link, a rank or host behind it.

It judges what :mod:`.stragglers` measured, always against the peers of the same run; figures of hardware belong to the
baselines. A root cause needs a repetition. A difference between two kinds of hardware is reported as info.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from distcheck import rules
from distcheck.checks.cluster.records import Cluster, Device
from distcheck.core.model import Finding, Fix, NotApplicable, Severity, Unavailable, Where, rank_ranges
from distcheck.core.registry import probe

from .model import Lateness, Measurements, Pair, Pairs

#: The phase that measures this, as the findings name it.
PHASE = "stragglers"
#: Why a single rank is not judged: there is nothing to compare.
ALONE = "one rank cannot be compared with others"
#: With two ranks each is the only peer of the other: a difference names neither.
FEWEST_RANKS = 3
#: Seconds of computing, times the median of the peers: nccl-tests' analyzer calls 1.5 a straggler. GPUs of one model
#: differ by a few percent.
SLOW_GPU = 1.5
#: The same on processors, where turbo clocks, shared cores and neighbours make factors of two on healthy hosts
#: (measured with torch 2.13 on loopback: up to 3).
SLOW_PROCESSOR = 3.0
#: Bandwidth of a pair, median of the comparable ones divided by it: dlrover's node check takes 2 on GPUs.
SLOW_PAIR_NCCL = 2.0
#: Pairs over gloo's sockets; below a factor of 3 healthy ones are reported (measured with torch 2.13 on loopback).
SLOW_PAIR_GLOO = 3.0
#: So many times slower over sockets, twice the factor and the slack granted, is no scatter, however much the others do:
#: with five processes a core, healthy pairs were four times apart. NCCL's paths may well be so different (bridges,
#: racks of one NVLink domain).
NO_SCATTER_GLOO = 6.0
#: Seconds that a message over sockets may lose to a scheduler, whatever its link: one slice (4 ms measured, on a host
#: with twice as many processes as cores). They are added to every time, so that a difference of few ms is no factor.
SLICE_S = 0.005
#: No rank is an outlier within so many standard deviations of what the others scatter (logarithms, from the median
#: absolute deviation): at 5, one in three million.
DEVIATIONS = 5.0
#: The median absolute deviation of a normal distribution times this is its standard deviation.
_DEVIATION_SCALE = 1.4826
#: Who comes less than this after the first is never late: two slices of a scheduler that ticks 100 times a second.
LATE_S = 0.02
#: Who is late comes at least so many times later than the middle of the ranks.
LATE_FACTOR = 5.0
#: "With everybody": that share of a rank's pairs.
_EVERYBODY = 0.9
#: Times the factor: how slow a pair must be that was measured only once.
_UNREPEATED = 2.0
#: Findings of one rule; the worst come first, and the first one has the number of all.
MOST_FINDINGS = 3
#: More stragglers than findings, and more than this share of the ranks or links: two kinds of hardware, not outliers
#: (NCCL's RAS names members of groups up to a quarter).
_FEW_RANKS = 0.25
_FEW_LINKS = 0.1
#: Names that a message spells out.
_NAMES = 3
#: Sorts after every ratio: two kinds of hardware come after single stragglers.
_LAST = 0.0


class SlowPair(NamedTuple):
    """A pair below its peers."""

    a: int
    b: int
    gbytes_per_s: float
    #: its time divided by the median of the comparable pairs
    ratio: float
    #: how often it was measured
    times: int


class PairGroup(NamedTuple):
    """Comparable pairs: those inside of hosts, or those between hosts."""

    inside: bool
    #: what the middle rank reaches with its partners, in 1e9 bytes a second
    median_gbytes_per_s: float
    #: the best measurement of each pair, and how many there were
    pairs: Mapping[tuple[int, int], tuple[float, int]]
    #: bandwidths of each rank, ascending
    of_rank: Mapping[int, Sequence[float]]
    #: seconds that 1e9 bytes may take longer
    slack: float = 0.0

    def ratio(self, gbytes_per_s: float) -> float:
        """How many times longer than the median a message takes, the slack granted to both."""
        return (1 / gbytes_per_s + self.slack) / (1 / self.median_gbytes_per_s + self.slack)


class SlowRanks(NamedTuple):
    """Ranks of one host, or a whole host, that are slow with everybody; ``ratio`` is the worst one's."""

    host: int
    ranks: tuple[int, ...]
    whole_host: bool
    gbytes_per_s: float
    ratio: float
    pairs: int


class _Names(NamedTuple):
    """Return what the records show of the ranks; empty without records."""

    host_of: Mapping[int, str] = {}
    ranks_of: Mapping[str, int] = {}
    device_of: Mapping[int, Device] = {}


class _Unit(NamedTuple):
    """Slow or late ranks of one host."""

    host: str | None
    ranks: tuple[int, ...]
    #: how much worse than the middle, of the worst rank, who stands first
    ratio: float
    worst: int


def slow_computers(own_time_s: Sequence[float], *, cuda: bool, groups: Iterable[Sequence[int]] = ()) -> list[int]:
    """Return the ranks whose computing takes too long compared with that of their peers.

    :param own_time_s: seconds of the same work, by rank
    :param groups: ranks that can be compared with each other (same GPU); without any, all can
    """
    factor = SLOW_GPU if cuda else SLOW_PROCESSOR
    slow: list[int] = []
    for group in list(groups) or [range(len(own_time_s))]:
        known = [rank for rank in group if rank < len(own_time_s) and _counts(own_time_s[rank])]
        if len(known) < FEWEST_RANKS:
            continue
        middle = statistics.median([own_time_s[rank] for rank in known])
        bound = middle * _factor(factor, (own_time_s[rank] / middle for rank in known))
        slow.extend(rank for rank in known if own_time_s[rank] >= bound)
    return sorted(slow)


def late_ranks(lateness_s: Sequence[float]) -> list[int]:
    """Return the ranks that come too late compared with the others; seconds after the first, by rank."""
    if len(lateness_s) < FEWEST_RANKS:
        return []
    middle = statistics.median(lateness_s)
    scatter = _DEVIATION_SCALE * statistics.median([abs(value - middle) for value in lateness_s])
    bound = max(LATE_S, LATE_FACTOR * middle, middle + DEVIATIONS * scatter)
    return [rank for rank, value in enumerate(lateness_s) if value >= bound]


def pair_factor(backend: str | None) -> float:
    """How many times slower than the median a pair is that is slow."""
    return SLOW_PAIR_NCCL if backend == "nccl" else SLOW_PAIR_GLOO


def no_scatter(backend: str | None) -> float:
    """The factor from which on a pair is slow, however much all of them scatter."""
    return math.inf if backend == "nccl" else NO_SCATTER_GLOO


def slack(backend: str | None, size_bytes: int) -> float:
    """Seconds in which 1e9 bytes are granted to the scheduler, in messages of that size; see ``SLICE_S``."""
    return 0.0 if backend == "nccl" or size_bytes <= 0 else SLICE_S * 1e9 / size_bytes


def compare(pairs: Iterable[Pair], hosts: Mapping[int, int] | Sequence[int], slack: float = 0.0) -> list[PairGroup]:
    """Return the pairs inside of hosts and those between hosts, each with its median. Kinds with fewer than three pairs
    or ranks are dropped, since they cannot be judged.

    The median is that of the ranks, each standing for the middle of its pairs: one slow rank of four makes half of all
    pairs slow, but it is still one of four.

    :param hosts: the host of each rank; pairs of a rank without one are dropped
    :param slack: seconds that 1e9 bytes may take longer without being slower
    """
    known = hosts if isinstance(hosts, Mapping) else dict(enumerate(hosts))
    kinds: dict[bool, dict[tuple[int, int], tuple[float, int]]] = {True: {}, False: {}}
    for pair in pairs:
        value = pair.busbw_gbytes_per_s
        if value is None or not _counts(value):
            continue
        a, b = pair.a, pair.b
        home, other = known.get(a), known.get(b)
        if home is None or other is None:
            continue
        best = kinds[home == other]
        before = best.get((a, b))
        best[a, b] = (value, 1) if before is None else (max(value, before[0]), before[1] + 1)
    groups = []
    for inside, best in kinds.items():
        of_rank: dict[int, list[float]] = {}
        for (a, b), (value, _) in best.items():
            of_rank.setdefault(a, []).append(value)
            of_rank.setdefault(b, []).append(value)
        if len(best) < FEWEST_RANKS or len(of_rank) < FEWEST_RANKS:
            continue
        for values in of_rank.values():
            values.sort()
        median = statistics.median([_middle(values) for values in of_rank.values()])
        groups.append(PairGroup(inside, median, best, of_rank, slack))
    return groups


def slow_pairs(groups: Iterable[PairGroup], factor: float) -> list[SlowPair]:
    """Return all pairs that are ``factor`` times slower than comparable ones, the slowest first, whatever the cause."""
    found = [
        SlowPair(a, b, value, group.ratio(value), times)
        for group in groups
        for (a, b), (value, times) in group.pairs.items()
        if group.ratio(value) >= factor
    ]
    return sorted(found, key=lambda item: (-item.ratio, item.a, item.b))


def slow_with_all_peers(
    group: PairGroup, hosts: Mapping[int, int] | Sequence[int], backend: str | None
) -> list[SlowRanks]:
    """Hosts and ranks that are slow with all of their partners, the slowest first."""
    factor = pair_factor(backend)
    # GPUs of one host may be on different switches or bridges: three of them can't show which is the odd one
    fewest_partners = 3 if group.inside and backend == "nccl" else 2
    ratios = {rank: group.ratio(_middle(values)) for rank, values in group.of_rank.items()}
    needed, loose = _factor(factor, ratios.values(), no_scatter(backend)), math.sqrt(factor)
    low: dict[int, list[int]] = {}
    for rank, values in group.of_rank.items():
        if ratios[rank] >= needed and sum(group.ratio(value) >= loose for value in values) >= _EVERYBODY * len(values):
            low.setdefault(hosts[rank], []).append(rank)
    if not low:
        return []
    ranks_of: dict[int, int] = {}
    for rank in group.of_rank:
        ranks_of[hosts[rank]] = ranks_of.get(hosts[rank], 0) + 1
    partners: dict[int, set[int]] = {}
    if not group.inside:
        for a, b in group.pairs:
            for host, other in ((hosts[a], hosts[b]), (hosts[b], hosts[a])):
                if host in low:
                    partners.setdefault(host, set()).add(other)
    found = []
    for host, ranks in low.items():
        whole = len(ranks) == ranks_of[host] and len(partners.get(host, ())) >= 2
        named = ranks if whole else [rank for rank in ranks if len(group.of_rank[rank]) >= fewest_partners]
        if named:
            value = min(_middle(group.of_rank[rank]) for rank in named)
            count = sum(len(group.of_rank[rank]) for rank in named)
            found.append(SlowRanks(host, tuple(sorted(named)), whole, value, group.ratio(value), count))
    return sorted(found, key=lambda item: (-item.ratio, item.host))


def slow_links(group: PairGroup, backend: str | None, excluded: Iterable[int]) -> list[SlowPair]:
    """Slow pairs that no slow rank explains, the slowest first.

    One that was measured only once must be slower still (``_UNREPEATED``).
    """
    away = set(excluded)
    rest = [item for item in group.pairs.items() if item[0][0] not in away and item[0][1] not in away]
    if not rest:
        return []
    factor = pair_factor(backend)
    needed = _factor(factor, (group.ratio(value) for _, (value, _) in rest), no_scatter(backend))
    found = [
        SlowPair(a, b, value, group.ratio(value), times)
        for (a, b), (value, times) in rest
        if group.ratio(value) >= (needed if times > 1 else max(needed, _UNREPEATED * factor))
    ]
    return sorted(found, key=lambda item: (-item.ratio, item.a, item.b))


@probe(rules.DC514)
def ranks_keep_up(
    lateness: Lateness, measured: Measurements | Unavailable, cluster: Cluster | Unavailable
) -> Iterator[Finding]:
    """All ranks compute as fast as each other, and come to a collective at the same time."""
    ranks = max(len(lateness.lateness_s), len(lateness.own_time_s))
    _nothing_to_compare(lateness.not_applicable, ranks, "no rank's arrival was measured")
    names = _names_of(cluster)
    cuda = _on_cuda(measured, cluster)
    alike = _equal_devices(names, ranks) if cuda else [list(range(ranks))]
    slow = slow_computers(lateness.own_time_s, cuda=cuda, groups=alike)
    late = sorted(set(late_ranks(lateness.lateness_s)) - set(slow))
    computing = _units(slow, lateness.own_time_s, names)
    coming = _units(late, lateness.lateness_s, names)
    if len(computing) + len(coming) > MOST_FINDINGS and len(slow) + len(late) > _FEW_RANKS * ranks:
        yield _two_kinds_of_ranks(lateness, slow, late, ranks)
        return
    units = [(unit, True) for unit in computing] + [(unit, False) for unit in coming]
    units.sort(key=lambda item: (-item[0].ratio, item[0].worst))
    for unit, computes in units[:MOST_FINDINGS]:
        yield _slow_rank(unit, computes, lateness, names, cuda=cuda, total=len(slow) + len(late))
    odd = [rank for group in alike if len(group) < FEWEST_RANKS for rank in group]
    if odd:
        raise Unavailable(f"{len(odd)} ranks have GPUs of which there are too few to compare their computing")


@probe(rules.DC515)
def links_are_alike(
    pairs: Pairs, measured: Measurements | Unavailable, cluster: Cluster | Unavailable
) -> Iterator[Finding]:
    """Every pair of ranks exchanges as much as comparable pairs do."""
    ranks = {rank for pair in pairs.pairs for rank in (pair.a, pair.b)}
    _nothing_to_compare(pairs.not_applicable, len(ranks), "no pairs were measured")
    names = _names_of(cluster)
    hosts = _hosts_of(ranks, measured, cluster)
    if hosts is None:
        raise Unavailable("which ranks share a host is not known, so no pair can be compared with another")
    backend = _backend(measured, cluster)
    groups = compare(pairs.pairs, hosts, slack(backend, pairs.size_bytes))
    if not groups:
        raise NotApplicable("too few pairs for a comparison")
    factor = pair_factor(backend)
    verdicts: list[tuple[float, Finding]] = []
    reported: set[tuple[int, tuple[int, ...]]] = set()
    named_groups = [slow_with_all_peers(group, hosts, backend) for group in groups]
    # a rank that is slow itself also explains its slow pairs of the other kind
    slow_ranks = {rank for named in named_groups for entry in named if not entry.whole_host for rank in entry.ranks}
    for group, named in zip(groups, named_groups, strict=True):
        links = slow_links(group, backend, slow_ranks.union(*(entry.ranks for entry in named)))
        slow = sum(len(entry.ranks) for entry in named)
        if len(named) > MOST_FINDINGS and slow > _FEW_RANKS * len(group.of_rank):
            verdicts.append((_LAST, _two_kinds(group, slow, len(group.of_rank), "ranks", factor)))
            named = []
        for entry in named:
            # a bad slot or bad port shows inside of the host and between hosts: one cause, one finding
            if (entry.host, entry.ranks) not in reported:
                reported.add((entry.host, entry.ranks))
                verdicts.append((entry.ratio, _slow_ranks_finding(entry, group, names, backend)))
        bundles = _bundles(links, group, hosts)
        if len(bundles) > MOST_FINDINGS and len(links) > _FEW_LINKS * len(group.pairs):
            verdicts.append((_LAST, _two_kinds(group, len(links), len(group.pairs), "pairs", factor)))
            bundles = []
        verdicts += [(bundle[0].ratio, _slow_link(bundle, group, hosts, names, backend)) for bundle in bundles]
    verdicts.sort(key=lambda item: -item[0])
    yield from _worst_of(verdicts)
    alone = sum(item.busbw_gbytes_per_s is not None and not item.retest for item in pairs.pairs)
    alone -= sum(len(group.pairs) for group in groups)
    if alone > 0:
        raise Unavailable(
            f"{alone} pairs were not judged: too few of their kind to compare with, or a host is not known"
        )


def _worst_of(verdicts: Sequence[tuple[float, Finding]]) -> Iterator[Finding]:
    """Yield the first few; the very first has the number of those that are dropped."""
    for place, (_, finding) in enumerate(verdicts[:MOST_FINDINGS]):
        more = len(verdicts) - MOST_FINDINGS
        evidence = {**finding.evidence, "further_culprits": more} if place == 0 and more > 0 else finding.evidence
        yield finding._replace(evidence=evidence)


# what can be compared


def _nothing_to_compare(why: str | None, ranks: int, unmeasured: str) -> None:
    """Raise if nothing may be judged: nothing was measured, or it could not be."""
    if why == ALONE:
        raise NotApplicable(why)
    if why is not None:
        raise Unavailable(why)
    if ranks == 0:
        raise Unavailable(unmeasured)
    if ranks < FEWEST_RANKS:
        raise NotApplicable(f"{ranks} ranks have too few peers: a difference would name neither")


def _names_of(cluster: Cluster | Unavailable) -> _Names:
    if isinstance(cluster, Unavailable):
        return _Names()
    host_of = {record.rank: host.host for host in cluster.hosts for record in host.ranks}
    devices = {
        record.rank: record.device for host in cluster.hosts for record in host.ranks if record.device is not None
    }
    # two records of one name (containers) count as one host
    ranks_of: dict[str, int] = {}
    for name in host_of.values():
        ranks_of[name] = ranks_of.get(name, 0) + 1
    return _Names(host_of, ranks_of, devices)


def _hosts_of(
    ranks: Iterable[int], measured: Measurements | Unavailable, cluster: Cluster | Unavailable
) -> dict[int, int] | None:
    """The host of each rank by number; None where that is not known."""
    if not isinstance(cluster, Unavailable) and any(host.ranks for host in cluster.hosts):
        return {record.rank: number for number, host in enumerate(cluster.hosts) for record in host.ranks}
    if not isinstance(measured, Unavailable) and measured.hosts == 1:
        return dict.fromkeys(ranks, 0)
    return None


def _backend(measured: Measurements | Unavailable, cluster: Cluster | Unavailable) -> str | None:
    if not isinstance(measured, Unavailable) and measured.backend:
        return measured.backend
    return None if isinstance(cluster, Unavailable) else cluster.backend


def _on_cuda(measured: Measurements | Unavailable, cluster: Cluster | Unavailable) -> bool:
    if not isinstance(measured, Unavailable) and measured.device:
        return measured.device.startswith("cuda")
    return _backend(measured, cluster) == "nccl"


def _equal_devices(names: _Names, ranks: int) -> list[list[int]]:
    """Ranks by the model of their GPU: another model is not slow, it is another model."""
    groups: dict[str, list[int]] = {}
    for rank in range(ranks):
        device = names.device_of.get(rank)
        groups.setdefault("" if device is None else device.name, []).append(rank)
    return list(groups.values())


def _counts(value: float) -> bool:
    return math.isfinite(value) and value > 0


def _middle(ascending: Sequence[float]) -> float:
    """The middle one, the better of two: a rank with one good partner of two is not slow itself."""
    return ascending[len(ascending) // 2]


def _factor(least: float, ratios: Iterable[float], most: float = math.inf) -> float:
    """The factor from which on a ratio is an outlier: the least one, or more where all of them scatter."""
    scatter = _DEVIATION_SCALE * statistics.median([abs(math.log(ratio)) for ratio in ratios])
    return max(least, min(most, math.exp(min(DEVIATIONS * scatter, 700.0))))  # exp(710) would overflow


def _units(ranks: Sequence[int], values: Sequence[float], names: _Names) -> list[_Unit]:
    """Slow ranks by host, the worst host first and its worst rank named."""
    if not ranks:
        return []
    middle = max(statistics.median(values), 1e-9)
    by_host: dict[object, list[int]] = {}
    for rank in ranks:
        by_host.setdefault(names.host_of.get(rank, rank), []).append(rank)
    units = []
    for members in by_host.values():
        worst = max(members, key=lambda rank: values[rank])
        units.append(_Unit(names.host_of.get(worst), tuple(members), values[worst] / middle, worst))
    return sorted(units, key=lambda unit: (-unit.ratio, unit.worst))


def _bundles(links: Sequence[SlowPair], group: PairGroup, hosts: Mapping[int, int]) -> list[list[SlowPair]]:
    """Links between the same two hosts belong together; inside of a host each stands alone."""
    if group.inside:
        return [[link] for link in links]
    between: dict[tuple[int, int], list[SlowPair]] = {}
    for link in links:
        home, other = sorted((hosts[link.a], hosts[link.b]))
        between.setdefault((home, other), []).append(link)
    return list(between.values())


# messages


def _slow_rank(unit: _Unit, computes: bool, lateness: Lateness, names: _Names, *, cuda: bool, total: int) -> Finding:
    values = lateness.own_time_s if computes else lateness.lateness_s
    peers = statistics.median(values)
    device = names.device_of.get(unit.worst) if cuda else None
    many = len(unit.ranks) > 1
    who = _ranks_text(
        unit.ranks, unit.host, whole=unit.host is not None and names.ranks_of[unit.host] == len(unit.ranks)
    )
    gpu = f" ({device.name or 'GPU'} at {device.pci})" if device is not None and device.pci and not many else ""
    throttle = sorted({reason for rank in unit.ranks for reason in _throttle(names, rank)}) if cuda else []
    slowed = f"; slowed down right now: {', '.join(throttle)}" if throttle else ""
    worst = f"up to {_ms(values[unit.worst])}" if many else _ms(values[unit.worst])
    if computes:
        what = (
            f"{who}{gpu} take{'' if many else 's'} {worst} for a matrix product that takes the others "
            f"{_ms(peers)} (median of {lateness.repetitions}){slowed}"
        )
    else:
        what = (
            f"{who}{gpu} come{'' if many else 's'} {worst} after the first rank to a collective, the others "
            f"{_ms(peers)} (median of {lateness.repetitions})"
        )
    evidence: dict[str, object] = {
        "kind": "computes-slowly" if computes else "comes-late",
        "ranks": rank_ranges(unit.ranks),
        "worst_rank": unit.worst,
        "own_time_s" if computes else "lateness_s": round(values[unit.worst], 6),
        "median_own_time_s" if computes else "median_lateness_s": round(peers, 6),
        "ratio": round(unit.ratio, 2),
        "repetitions": lateness.repetitions,
        "slow_ranks": total,
    }
    if throttle:
        evidence["throttle"] = throttle
    return rules.DC514.found(
        what,
        where=Where(
            host=unit.host,
            rank=None if many else unit.worst,
            ranks=rank_ranges(unit.ranks) if many else None,
            gpu=device.pci if device is not None and not many else None,
            phase=PHASE,
        ),
        evidence=evidence,
        fix=_fix_rank(unit, device, computes=computes, cuda=cuda),
    )


def _throttle(names: _Names, rank: int) -> tuple[str, ...]:
    device = names.device_of.get(rank)
    return () if device is None else device.throttle


def _fix_rank(unit: _Unit, device: Device | None, *, computes: bool, cuda: bool) -> Fix:
    host = unit.host or "its host"
    apart = "; exclude the host from jobs until it is fixed"
    if computes and cuda:
        command = f"nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER -i {device.pci}" if device and device.pci else None
        return Fix(
            f"check clocks, temperature and power of the GPU on {host} under load, and other processes that use "
            f"it{apart}",
            command=command,
            where="host",
        )
    return Fix(
        f"find out what uses the CPU on {host} next to {'these ranks' if len(unit.ranks) > 1 else 'this rank'}: "
        f"other processes, a CPU quota, too few cores for its threads, swapping{apart}",
        command="top -b -n 1",
        where="host",
    )


def _two_kinds_of_ranks(lateness: Lateness, slow: Sequence[int], late: Sequence[int], ranks: int) -> Finding:
    number = len(slow) + len(late)
    return rules.DC514.found(
        f"{number} of {ranks} ranks are far slower than the median: two kinds of ranks, not a few slow ones",
        severity=Severity.INFO,
        where=Where(phase=PHASE),
        evidence={
            "slow_computing_ranks": len(slow),
            "late_ranks": len(late),
            "ranks": ranks,
            "median_own_time_s": round(statistics.median(lateness.own_time_s), 6) if lateness.own_time_s else None,
            "worst_rank": max(
                slow or late, key=lambda rank: (lateness.own_time_s if slow else lateness.lateness_s)[rank]
            ),
        },
        fix=Fix("compare the hardware of the hosts, and give one job hosts of one kind", where="job-script"),
    )


def _two_kinds(group: PairGroup, slow: int, count: int, what: str, factor: float) -> Finding:
    place = "inside of hosts" if group.inside else "between hosts"
    return rules.DC515.found(
        f"{slow} of {count} {what} {place} reach less than 1/{factor:g} of the median, "
        f"{_rate(group.median_gbytes_per_s)}: two kinds of paths, not one bad link",
        severity=Severity.INFO,
        where=Where(phase=PHASE),
        evidence={
            "kind": f"two-kinds-of-{what}",
            "slow": slow,
            "of": count,
            "median_gbytes_per_s": round(group.median_gbytes_per_s, 4),
        },
        fix=Fix(
            "compare with the topology of the machines (nvidia-smi topo -m; switches and racks), and put ranks "
            "that exchange most on the fast paths",
            where="job-script",
        ),
    )


def _slow_ranks_finding(entry: SlowRanks, group: PairGroup, names: _Names, backend: str | None) -> Finding:
    host = names.host_of.get(entry.ranks[0])
    one = len(entry.ranks) == 1
    median = _rate(group.median_gbytes_per_s)
    if entry.whole_host:
        who = f"{_ranks_text(entry.ranks, host, whole=True)}"
        what = (
            f"{who} reach{'es' if one else ''} {_rate(entry.gbytes_per_s)} with every other host, other hosts {median}"
        )
        kind = "slow-host"
    else:
        place = "on its host" if group.inside else "on other hosts"
        who = _ranks_text(entry.ranks, host, whole=False)
        what = (
            f"{who} reach{'es' if one else ''} {_rate(entry.gbytes_per_s)} with every partner "
            f"{place if one else place.replace('its', 'their')}, other ranks {median}"
        )
        kind = "slow-rank-links"
    device = names.device_of.get(entry.ranks[0]) if one else None
    return rules.DC515.found(
        f"{what} (median of {entry.pairs} pairs)",
        where=Where(
            host=host,
            rank=entry.ranks[0] if one else None,
            ranks=None if one else rank_ranges(entry.ranks),
            gpu=device.pci if device is not None and device.pci else None,
            phase=PHASE,
        ),
        evidence=_bandwidths(kind, entry.ranks, entry.gbytes_per_s, group, entry.pairs),
        fix=_fix_link(host, group, backend),
    )


def _slow_link(
    bundle: Sequence[SlowPair], group: PairGroup, hosts: Mapping[int, int], names: _Names, backend: str | None
) -> Finding:
    worst = bundle[0]
    home, other = names.host_of.get(worst.a), names.host_of.get(worst.b)
    ends = {hosts[worst.a], hosts[worst.b]}
    peer: str | None
    if group.inside:
        place = f" on {home}" if home is not None else ""
        who, peer, rank = f"the link between ranks {worst.a} and {worst.b}{place}", f"rank {worst.b}", worst.a
    elif len(bundle) > 1 and len(bundle) == sum({hosts[a], hosts[b]} == ends for a, b in group.pairs):
        who, peer, rank = f"the link between {home} and {other}", other, None
    else:  # the records that distinguish the hosts name them
        who = f"the link between rank {worst.a} on {home} and rank {worst.b} on {other}"
        peer, rank = f"rank {worst.b} on {other}", worst.a
    more = f", the worst of {len(bundle)} pairs" if len(bundle) > 1 else ""
    return rules.DC515.found(
        f"{who} gives {_rate(worst.gbytes_per_s)}{more}; both ends reach the usual "
        f"{_rate(group.median_gbytes_per_s)} with others",
        where=Where(host=home, rank=rank, peer=peer, phase=PHASE),
        evidence={
            **_bandwidths("slow-link", (worst.a, worst.b), worst.gbytes_per_s, group, len(bundle)),
            "measurements": worst.times,
        },
        fix=_fix_link(home, group, backend, other=other),
    )


def _bandwidths(kind: str, ranks: Sequence[int], value: float, group: PairGroup, pairs: int) -> dict[str, object]:
    return {
        "kind": kind,
        "inside_host": group.inside,
        "ranks": rank_ranges(ranks),
        "gbytes_per_s": round(value, 4),
        "median_gbytes_per_s": round(group.median_gbytes_per_s, 4),
        "ratio": round(group.median_gbytes_per_s / value, 2),
        "pairs": pairs,
    }


def _fix_link(host: str | None, group: PairGroup, backend: str | None, *, other: str | None = None) -> Fix:
    if group.inside and backend == "nccl":
        return Fix(
            f"check how the GPUs of {host or 'this host'} are connected, the NVLink state, and the PCIe width of both",
            command="nvidia-smi topo -m",
            where="host",
        )
    if group.inside:
        return Fix(
            f"find out what uses the CPU on {host or 'this host'} next to these ranks: other processes, a CPU quota",
            command="top -b -n 1",
            where="host",
        )
    counters = "speed and error counters of the network ports (ip -s link; ibstat where there is InfiniBand)"
    if other is not None:
        return Fix(
            f"check cables and switches between {host} and {other}, {counters} of both, and bonded links with a "
            "failed member. Do not give one job both hosts until it is fixed",
            command="ip -s link",
            where="host",
        )
    return Fix(
        f"compare {counters} of {host or 'its host'} with those of another host; exclude the host from jobs until "
        "it is fixed",
        command="ip -s link",
        where="host",
    )


def _ranks_text(ranks: Sequence[int], host: str | None, *, whole: bool) -> str:
    place = f" on {host}" if host is not None else ""
    if len(ranks) == 1:
        return f"rank {ranks[0]}{place}"
    if whole:
        return f"all {len(ranks)} ranks{place}"
    if len(ranks) <= _NAMES or len(rank_ranges(ranks).split(",")) <= _NAMES:
        return f"ranks {rank_ranges(ranks)}{place}"
    return f"{len(ranks)} ranks{place} ({', '.join(map(str, ranks[:_NAMES]))}, …)"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def _rate(gbytes_per_s: float) -> str:
    return f"{gbytes_per_s:.3g} GB/s"
