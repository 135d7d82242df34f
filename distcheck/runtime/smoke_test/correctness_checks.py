"""Judges whether the collectives of a live group give right results.

Each rank computes the expected result, compares on the device, and returns values: nothing is agreed on through the
group under test. :mod:`.cases` lists the cases, :mod:`.inputs` makes the numbers, :mod:`.correctness` runs them. Speed
and stragglers belong to other modules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from distcheck import rules
from distcheck.checks.cluster.hostlist import place_ranks
from distcheck.checks.cluster.records import Cluster
from distcheck.core.model import Finding, Fix, NotApplicable, Severity, Unavailable, Where, rank_names, rank_ranges
from distcheck.core.registry import probe
from distcheck.runtime.coordination.locations import few_ranges
from distcheck.runtime.coordination.protocol import unpacked_ranks

from .cases import SUMS
from .correctness import INPUT, PEER_COPY, CollectiveFailed, CorrectnessRun
from .inputs import ITEM_BYTES
from .live_group import LiveGroup
from .model import Correctness, RankCorrectness, Step, WrongResult

__all__ = ["CollectiveFailed", "merge_rank_results", "peer_copies_are_right", "results_are_right", "verify"]

#: Mismatches that are kept for all ranks together, and findings that are made of them.
MOST_MISMATCHES = 16
MOST_FINDINGS = 3
#: Collectives whose data all come from one rank.
ROOTED = ("broadcast", "scatter", "broadcast_object", "scatter_object")
#: Texts of exceptions and reasons that are kept.
MOST_TEXTS = 16


def verify(live: LiveGroup) -> RankCorrectness:
    """Try every collective, and compare what this rank holds afterwards with what it must hold.

    :raises CollectiveFailed: one of them raised
    """
    return CorrectnessRun(live).verify()


def merge_rank_results(parts: Iterable[RankCorrectness], world_size: int) -> Correctness:
    """What all ranks proved together.

    Of the mismatches the first of each rank, collective and dtype counts, and at most ``MOST_MISMATCHES`` are kept, of
    as many different collectives as possible. Ranks that are wrong are named completely.
    """
    ranks = checks = 0
    elapsed = 0.0
    groups: dict[tuple[str, str], dict[int, WrongResult]] = {}
    skipped: dict[tuple[str, str], None] = {}
    failures: dict[tuple[str, str], None] = {}
    collectives: dict[str, None] = {}
    dtypes: dict[str, None] = {}
    for part in parts:
        ranks += 1
        checks += part.checks
        elapsed = max(elapsed, part.elapsed_s)
        for mismatch in part.mismatches:
            groups.setdefault((mismatch.collective, mismatch.dtype), {}).setdefault(mismatch.rank, mismatch)
        for item in part.skipped:
            if len(skipped) < MOST_TEXTS:
                skipped[item] = None
        for item in part.failures:
            if len(failures) < MOST_TEXTS:
                failures[item] = None
        collectives.update(dict.fromkeys(part.collectives))
        dtypes.update(dict.fromkeys(part.dtypes))
    _acquit_barrier(groups)
    named: dict[str, set[int]] = {}
    for (collective, _), found in groups.items():
        named.setdefault(collective, set()).update(found)
    queues = [[found[rank] for rank in sorted(found)] for found in groups.values()]
    kept: list[WrongResult] = []
    turn = 0
    while len(kept) < MOST_MISMATCHES and any(turn < len(queue) for queue in queues):
        kept.extend(queue[turn] for queue in queues if turn < len(queue))
        turn += 1
    return Correctness(
        ranks,
        world_size,
        checks,
        tuple(kept[:MOST_MISMATCHES]),
        tuple(sorted(set().union(*named.values()))),
        tuple(skipped),
        tuple(failures),
        elapsed,
        tuple(collectives),
        tuple(dtypes),
        tuple((collective, rank_ranges(found)) for collective, found in named.items()),
    )


def _acquit_barrier(groups: dict[tuple[str, str], dict[int, WrongResult]]) -> None:
    """Drop a wrong barrier of a rank whose all_reduce is wrong, since an all_reduce tests the barrier."""
    wrong = {rank for (collective, _), found in groups.items() if collective == "all_reduce" for rank in found}
    barrier = groups.pop(("barrier", ""), {})
    barrier = {rank: found for rank, found in barrier.items() if found.source not in wrong}
    if barrier:
        groups["barrier", ""] = barrier


# judging it


@probe(rules.DC510)
def results_are_right(proof: Correctness, cluster: Cluster | Unavailable) -> Iterator[Finding]:
    """Every collective gave every rank the right result."""
    groups: dict[str, list[WrongResult]] = {}
    for mismatch in proof.mismatches:
        if mismatch.collective != PEER_COPY:
            groups.setdefault(mismatch.collective.removesuffix(INPUT), []).append(mismatch)
    hosts = {} if isinstance(cluster, Unavailable) else {
        rank.rank: host.host for host in cluster.hosts for rank in host.ranks
    }  # fmt: skip
    backend = None if isinstance(cluster, Unavailable) else cluster.backend
    wrong_by_name = {name: set(unpacked_ranks(ranks)) for name, ranks in proof.wrong}
    others = dict.fromkeys((*groups, *(name.removesuffix(INPUT) for name in wrong_by_name if name != PEER_COPY)))
    for number, (collective, found) in enumerate(groups.items()):
        if number == MOST_FINDINGS:
            return
        ranks = sorted(
            {item.rank for item in found}
            | wrong_by_name.get(collective, set())
            | wrong_by_name.get(collective + INPUT, set())
        )
        first = found[0]
        causes = _likely_causes(collective, found, ranks, proof.world_size)
        named = next(iter(causes)) if len(causes) == 1 else ranks[0] if len(ranks) == 1 else None
        places = sorted({hosts[rank] for rank in causes if rank in hosts})
        yield rules.DC510.found(
            _wrong_text(collective, first, ranks, proof.world_size) + _causes_text(collective, causes, ranks, hosts),
            where=Where(
                host=hosts.get(named) if named is not None else None,
                rank=ranks[0] if len(ranks) == 1 else None,
                ranks=place_ranks(ranks) if len(ranks) > 1 else None,
                phase="verify",
                object=collective,
            ),
            evidence={
                "collective": collective,
                "dtypes": list(dict.fromkeys(item.dtype for item in found)),
                "size_bytes": first.size_bytes,
                "wrong_elements": first.wrong,
                "elements": first.elements,
                "first_index": first.first_index,
                "expected": first.expected,
                "seen": first.seen,
                "seed": first.seed,
                "wrong_ranks": len(ranks),
                "world_size": proof.world_size,
                "suspects": sorted(causes),
                "other_collectives": [name for name in others if name != collective],
            },
            fix=_wrong_fix(collective, causes, places, backend),
        )


@probe(rules.DC336)
def peer_copies_are_right(proof: Correctness, cluster: Cluster | Unavailable) -> Iterator[Finding]:
    """What one GPU writes into the memory of another arrives as it was."""
    found = [item for item in proof.mismatches if item.collective == PEER_COPY]
    if not found:
        if any(PEER_COPY in what for what, _ in proof.skipped) or PEER_COPY not in proof.collectives:
            raise NotApplicable("no rank could copy from GPU to GPU")
        return
    named = unpacked_ranks(dict(proof.wrong).get(PEER_COPY, ""))
    ranks = sorted({item.rank for item in found}.union(named))
    hosts = [] if isinstance(cluster, Unavailable) else sorted(
        {host.host for host in cluster.hosts if any(rank.rank in ranks for rank in host.ranks)}
    )  # fmt: skip
    first = found[0]
    yield rules.DC336.found(
        f"a copy from the GPU of rank {first.rank} to the next one and back changes {first.wrong} of "
        f"{first.elements} elements. The first is at index {first.first_index} (expected {first.expected}, "
        f"seen {first.seen}). Affected: {_counted(ranks, proof.world_size)}",
        severity=Severity.ERROR,
        where=Where(
            host=hosts[0] if len(hosts) == 1 else None,
            rank=ranks[0] if len(ranks) == 1 else None,
            ranks=place_ranks(ranks) if len(ranks) > 1 else None,
            phase="verify",
        ),
        evidence={
            "wrong_elements": first.wrong,
            "elements": first.elements,
            "first_index": first.first_index,
            "expected": first.expected,
            "seen": first.seen,
            "wrong_ranks": len(ranks),
        },
        fix=Fix(
            "have an administrator boot with iommu=pt, or switch the IOMMU and PCIe's access control (ACS) off in the "
            "firmware; until then NCCL_P2P_DISABLE=1 in the launch line sends the data through memory",
            by="admin",
            where="host",
        ),
    )


def _wrong_text(collective: str, first: WrongResult, ranks: list[int], world_size: int) -> str:
    """What is wrong, with the values of the first rank."""
    who = _counted(ranks, world_size)
    if collective == "barrier":
        late = "a rank" if first.source is None else f"rank {first.source}"
        return (
            f"barrier lets {who} go on before {late} has come: rank {first.rank} waited {first.seen}, "
            f"expected {first.expected}"
        )
    step = Step("verify", collective, first.dtype if first.dtype in ITEM_BYTES else "", first.size_bytes).text
    share = f"{first.wrong} of {first.elements} {'objects' if first.dtype == 'object' else 'elements'}"
    place = "" if len(ranks) == 1 else f"on rank {first.rank}, "
    if first.collective.endswith(INPUT):
        return f"{step} changed what {who} had only to send: {place}{share}, the first at index {first.first_index}"
    return (
        f"{step} gives a wrong result on {who}: {place}{share}, the first at index {first.first_index} "
        f"(expected {first.expected}, seen {first.seen})"
    )


def _likely_causes(collective: str, found: list[WrongResult], ranks: list[int], world_size: int) -> frozenset[int]:
    """Who may have spoiled the data: one rank; two, of which one is at fault or the way between them; or unknown.

    What is wrong on several ranks, and comes from one, is the sender's; what is wrong on one rank, and comes from
    several, is the receiver's.
    """
    results = [item for item in found if not item.collective.endswith(INPUT)]
    if not results:
        return frozenset(ranks if len(ranks) == 1 else ())
    sources = {item.source for item in results if item.source is not None}
    all_known = all(item.source is not None for item in results)
    if collective == "barrier" or (len(ranks) == world_size > 1 and not all_known):
        return frozenset()
    if all_known and len(sources) == 1:
        receivers = [rank for rank in ranks if rank not in sources]
        if collective in SUMS or not receivers:
            return frozenset(sources)
        if len(receivers) == 1:
            return frozenset((*receivers, *sources)) if world_size > 2 or len(ranks) == 1 else frozenset()
        # every receiver names the root of a broadcast: the root is a candidate only where all of them do
        everybody = len(receivers) == world_size - 1
        return frozenset(sources) if everybody or collective not in ROOTED else frozenset()
    return frozenset(ranks) if len(ranks) == 1 else frozenset()


def _causes_text(collective: str, causes: frozenset[int], ranks: list[int], hosts: Mapping[int, str]) -> str:
    def named(rank: int) -> str:
        return f"rank {rank} on {hosts[rank]}" if rank in hosts else f"rank {rank}"

    if len(causes) == 1:
        (rank,) = causes
        if collective in SUMS and [rank] != ranks:
            return f"; the contribution of {named(rank)} is missing or counted twice"
        return f"; all of it came from {named(rank)}" if [rank] != ranks else ""
    if len(causes) == 2:
        one, other = sorted(causes)
        return f"; it is between {named(one)} and {named(other)}"
    return ""


def _wrong_fix(collective: str, causes: frozenset[int], hosts: list[str], backend: str | None) -> Fix:
    where = f"exclude {' and '.join(hosts)}" if hosts else "exclude the host of the named rank"
    if not causes:
        where = "exclude one host after the other"
    if collective == "barrier":
        return Fix(
            "use the torch and the backend that this host was set up with. A barrier that does not wait is a "
            "bug in the library or in a wrapper",
            where="each-task",
        )
    if backend == "gloo":
        return Fix(
            f"run it again to see whether it is always the same rank; then {where}, and have an administrator test its "
            "memory (memtester, 'ras-mc-ctl --errors') and its network card with offloads off",
            by="admin",
            where="host",
        )
    return Fix(
        "run once with NCCL_P2P_DISABLE=1: if it is correct, the link between the GPUs is faulty. Run once with each "
        "of NCCL_ALGO=Ring and NCCL_PROTO=Simple: if it is correct, another algorithm of NCCL is. Unset them again. "
        f"Then {where}, and have an administrator run 'dcgmi diag -r 3' there",
        where="launch-line",
    )


def _counted(ranks: list[int], world_size: int) -> str:
    """Ranks in few words: ``rank 3``, ``all 8 ranks``, ``ranks 0-2,5``, ``5000 of 16384 ranks (0,2,4,6 …)``."""
    if len(ranks) == world_size > 1:
        return f"all {world_size} ranks"
    short = few_ranges(ranks)
    return rank_names(ranks) if short == rank_ranges(ranks) else f"{len(ranks)} of {world_size} ranks ({short} …)"
