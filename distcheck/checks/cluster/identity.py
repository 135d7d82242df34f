"""Identity of ranks and hosts: missing, duplicate or inconsistent ranks, hosts that cannot be distinguished, clocks.

It judges only what several processes report; ``checks/host/rank_numbers.py`` judges one process. The time of each probe
is proportional to the ranks, and the length of its message is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from distcheck import rules
from distcheck.checks.host.devices import CUDA_MASK, HIP_MASK, ROCR_MASK
from distcheck.core.model import Finding, Fix, Severity, Unavailable, Where, expand_ranges, rank_ranges
from distcheck.core.registry import probe
from distcheck.rules import shared_fixes

from .hostlist import SHORT, place_hosts, place_ranks, shorten_hosts
from .membership_protocol import MembershipAnswer
from .own_record import NODE_NUMBERS
from .records import Caller, Cluster, HostRecord, RankRecord, Roll

#: Groups of missing ranks, callers and the like that a message names; others are counted.
MOST_NAMED = 4
#: Callers that the membership check names at most; with that many, more may exist.
_MOST_CALLERS = 16
#: Clocks that differ by less than a second only affect reading of logs.
NOTABLE_SKEW_S = 1.0
#: c10d counts a node as dead whose last heartbeat is three times 5 s old by the reader's own clock (torch 2.13,
#: ``dynamic_rendezvous.py``: keep_alive_interval 5 s, keep_alive_max_attempt 3).
DEADLY_SKEW_S = 15.0

_MASKS = (CUDA_MASK, HIP_MASK, ROCR_MASK)


# membership
_COUNT_ALIKE = Fix(
    "give every node the same --nnodes and --nproc-per-node, and let the launcher set WORLD_SIZE and "
    "LOCAL_WORLD_SIZE: export them nowhere",
    where="launch-line",
)


@probe(rules.DC501)
def every_rank_came(roll: Roll) -> Iterator[Finding]:
    """Report ranks (or hosts) that did not join in time."""
    if not roll.missing or _others_explain(roll):
        return
    hosts = roll.of == "hosts"
    # named for users; a set of thousands of pieces is cut, and counted in the evidence
    within = f" within {roll.timeout_s:g} s" if roll.timeout_s else ""
    expected = _expected(roll)
    named = sorted({place for place in roll.expected.values() if _is_host(place)})
    yield rules.DC501.found(
        f"{_numbered(roll.missing, roll)} did not come{within}{expected}",
        where=Where(
            ranks=None if hosts else place_ranks(roll.missing),
            host=place_hosts(named),
        ),
        evidence={
            "world_size": roll.world_size,
            "present": roll.present,
            "missing": len(roll.missing),
            "first_missing": list(roll.missing[:MOST_NAMED]),
            "expected_hosts": shorten_hosts(named) or None,
            "waited_s": roll.waited_s,
            "of": roll.of,
        },
        fix=_fetch_them(roll, named),
    )


@probe(rules.DC502)
def no_rank_came_twice(roll: Roll) -> Iterator[Finding]:
    """Report numbers that several processes (or hosts) have."""
    doubled = [item for item in roll.surplus if _agrees(item, roll) and 0 <= item.rank < roll.world_size]
    if not doubled:
        return
    hosts = roll.of == "hosts"
    ranks = sorted({item.rank for item in doubled})
    noun = "node" if hosts else "rank"
    several = len(ranks) > 1
    gap = f", and no process is {_numbered(roll.missing, roll)}" if roll.missing and _others_explain(roll) else ""
    yield rules.DC502.found(
        f"{noun}{'s' * several} {_short_ranks(ranks)} {'were' if several else 'was'} taken twice, the second time by "
        f"{_callers(doubled)}{gap}",
        where=Where(ranks=None if hosts else place_ranks(ranks), host=place_hosts(item.host for item in doubled)),
        evidence={
            "world_size": roll.world_size,
            "doubled": len(ranks),
            "callers": [
                {"rank": item.rank, "host": item.host, "pid": item.pid or None} for item in doubled[:MOST_NAMED]
            ],
            "missing": len(roll.missing),
        },
        fix=Fix("give each node a --node-rank of its own, from 0 on, and start it once", where="launch-line")
        if hosts
        else shared_fixes.ONE_NODE_RANK_EACH,
    )


@probe(rules.DC103)
def callers_count_alike(roll: Roll, answer: MembershipAnswer | Unavailable) -> Iterator[Finding]:
    """Report processes with another number of ranks."""
    if isinstance(answer, MembershipAnswer) and answer.disagreeing:
        return  # ``membership.py`` reports hosts that contradict each other
    strange = [item for item in roll.surplus if not _agrees(item, roll) or not 0 <= item.rank < roll.world_size]
    if not strange:
        return
    hosts = roll.of == "hosts"
    noun = "node" if hosts else "rank"
    sizes: dict[int | None, list[Caller]] = {}
    for item in strange:
        sizes.setdefault(item.world_size, []).append(item)
    parts = []
    for size, group in list(sizes.items())[:MOST_NAMED]:
        ranks = _short_ranks(sorted({item.rank for item in group}))
        plural = "s" * (len(group) > 1)
        of = "" if size in (None, roll.world_size) else f" of {size:,}"
        parts.append(f"{noun}{plural} {ranks}{of} on {shorten_hosts(item.host for item in group)}")
    yield rules.DC103.found(
        f"the launch has {roll.world_size:,} {noun}s, but some answered that count otherwise: {'; '.join(parts)}",
        where=Where(
            ranks=None if hosts else place_ranks(item.rank for item in strange),
            host=place_hosts(item.host for item in strange),
        ),
        evidence={
            "world_size": roll.world_size,
            "others": [
                {"rank": item.rank, "world_size": item.world_size, "host": item.host} for item in strange[:MOST_NAMED]
            ],
            "missing": len(roll.missing),
        },
        fix=_COUNT_ALIKE,
    )


# numbers


@probe(rules.DC103)
def ranks_fit_together(cluster: Cluster) -> Iterator[Finding]:
    """Report ranks with another number of ranks, and equal local ranks on one node."""
    yield from _world_sizes(cluster)
    doubled: list[tuple[str, list[RankRecord]]] = []
    sizes: list[tuple[str, list[RankRecord]]] = []
    for host in cluster.hosts:
        for ranks in _nodes(host):
            if _local_ranks_clash(ranks):
                doubled.append((host.host, ranks))
            elif _local_sizes_clash(ranks):
                sizes.append((host.host, ranks))
    if doubled:
        name, ranks = doubled[0]
        local = _clashing(ranks)
        yield rules.DC103.found(
            f"ranks {_short_ranks(rank.rank for rank in local)} of {name} all have LOCAL_RANK {local[0].local_rank}"
            + _and_elsewhere(other for other, _ in doubled[1:]),
            where=Where(
                variable="LOCAL_RANK",
                host=place_hosts(other for other, _ in doubled),
                ranks=place_ranks(rank.rank for rank in local),
            ),
            evidence={"local_rank": local[0].local_rank, "ranks": len(local), "hosts": len(doubled)},
            fix=Fix(
                "let one launcher number them: torchrun does; under srun set LOCAL_RANK=$SLURM_LOCALID in each task, "
                "and export it nowhere else",
                where="each-task",
            ),
        )
    if sizes:
        name, ranks = sizes[0]
        stated = sorted({rank.local_world_size for rank in ranks if rank.local_world_size is not None})
        count = f"{len(ranks)} rank{'s' * (len(ranks) != 1)}"
        yield rules.DC103.found(
            f"{count} of {name} have LOCAL_WORLD_SIZE {' and '.join(map(str, stated[:MOST_NAMED]))}"
            + _and_elsewhere(other for other, _ in sizes[1:]),
            where=Where(variable="LOCAL_WORLD_SIZE", host=place_hosts(other for other, _ in sizes)),
            evidence={"local_world_sizes": stated[:MOST_NAMED], "ranks": len(ranks), "hosts": len(sizes)},
            fix=_COUNT_ALIKE,
        )


@probe(rules.DC508)
def ranks_follow_the_nodes(cluster: Cluster) -> Iterator[Finding]:
    """Report ranks that are not numbered node by node, and nodes in another order than the scheduler's."""
    if len(cluster.hosts) < 2 or sum(len(host.ranks) for host in cluster.hosts) != cluster.world_size:
        return
    scattered = [host for host in cluster.hosts if host.ranks and not _in_a_row(host.ranks)]
    if scattered:
        host = scattered[0]
        yield rules.DC508.found(
            f"ranks are dealt out to the hosts in turn: {host.host} has "
            f"{_short_ranks(rank.rank for rank in host.ranks)}{_and_elsewhere(item.host for item in scattered[1:])}",
            where=Where(host=place_hosts(item.host for item in scattered)),
            evidence={"hosts": len(scattered), "world_size": cluster.world_size},
            fix=Fix(
                "number the ranks node by node (srun --distribution=block, mpirun --map-by slot). This matters if the "
                "code computes the node as rank // GPUs, or needs consecutive ranks on a node",
                where="launch-line",
            ),
        )
    moved = _out_of_order(cluster.hosts)
    if moved is not None:
        first, second = moved
        yield rules.DC508.found(
            f"{first.host} was given node number {_given(first)} and {second.host} {_given(second)}, but the "
            f"rendezvous made them nodes {first.ranks[0].node_rank} and {second.ranks[0].node_rank}",
            where=Where(host=place_hosts((first.host, second.host))),
            evidence={
                "hosts": [first.host, second.host],
                "given": [_given(first), _given(second)],
                "node_ranks": [first.ranks[0].node_rank, second.ranks[0].node_rank],
            },
            fix=Fix(
                "nothing, unless the order matters (data shards, a save on node 0). c10d numbers the nodes as they "
                "join, and may change the order at a restart. --master-addr and --node-rank "
                "without --rdzv-backend keep the order",
                where="launch-line",
            ),
        )


# hosts


@probe(rules.DC506)
def hosts_are_distinct(cluster: Cluster) -> Iterator[Finding]:
    """Report containers of one NCCL host without shared memory, and machines that NCCL takes for one."""
    if not cluster.launched:
        return
    nccl = uses_nccl(cluster)
    yield from _one_name_two_memories(cluster, nccl)
    yield from _one_id_two_kernels(cluster, nccl)
    yield from _one_name_two_kernels(cluster)
    if nccl:
        yield from _one_kernel_two_names(cluster)


@probe(rules.DC505)
def clocks_agree(cluster: Cluster) -> Iterator[Finding]:
    """Report clocks of hosts that differ by more than the error of their measurement."""
    skews = _skews(cluster.hosts)
    notable = [item for item in skews if item.certain_s > NOTABLE_SKEW_S]
    if not notable:
        return
    worst = max(notable, key=lambda item: item.certain_s)
    if cluster.rendezvous != "c10d" or not cluster.launched:
        severity = Severity.INFO
    else:
        severity = Severity.ERROR if worst.certain_s > DEADLY_SKEW_S else Severity.WARNING
    way = "ahead of" if worst.offset_s > 0 else "behind"
    if len(skews) == 2:
        other = next(item for item in skews if item is not worst)
        text = f"the clock of {worst.host} is {abs(worst.offset_s):.1f} s {way} that of {other.host}"
        where = Where(host=place_hosts((worst.host, other.host)))
    else:
        rest = len(skews) - len(notable)
        text = (
            f"the clock{'s' * (len(notable) > 1)} of {shorten_hosts(item.host for item in notable)} "
            f"{'differ' if len(notable) > 1 else 'differs'} from the time of the other {rest:,} hosts, by "
            f"{abs(worst.offset_s):.1f} s on {worst.host} ({'ahead' if worst.offset_s > 0 else 'behind'})"
        )
        where = Where(host=place_hosts(item.host for item in notable))
    c10d = "; c10d uses these clocks to decide whether a node is alive" if severity > Severity.INFO else ""
    yield rules.DC505.found(
        text + c10d,
        severity=severity,
        where=where,
        evidence={
            "offset_s": round(worst.offset_s, 3),
            "error_s": round(worst.error_s, 3),
            "hosts": len(notable),
            "rendezvous": cluster.rendezvous,
        },
        fix=Fix(
            "have the clocks synchronised (chrony or NTP; 'timedatectl' and 'chronyc tracking' show their state)",
            by="admin",
            where="host",
        ),
    )


# shared by the probes


def uses_nccl(cluster: Cluster) -> bool:
    """Return whether the ranks will use NCCL: as stated, else if a rank has a GPU."""
    if cluster.backend is not None:
        return "nccl" in cluster.backend
    return any(rank.device is not None for host in cluster.hosts for rank in host.ranks)


def _agrees(item: Caller, roll: Roll) -> bool:
    return item.world_size in (None, roll.world_size)


def _others_explain(roll: Roll) -> bool:
    """Return whether as many processes joined with a wrong number as are missing: both have one cause."""
    return bool(roll.surplus) and len(roll.surplus) >= min(len(roll.missing), _MOST_CALLERS)


def _numbered(numbers: Sequence[int], roll: Roll) -> str:
    """Return ``rank 3 of 8``, ``ranks 8-15 of 16``, ``8,192 of 16,384 ranks (8-15,24-31 and 8,176 more)``."""
    noun = "node" if roll.of == "hosts" else "rank"
    if len(numbers) == 1:
        return f"{noun} {numbers[0]} of {roll.world_size:,}"
    text = rank_ranges(numbers)
    if len(text) <= SHORT:
        return f"{noun}s {text} of {roll.world_size:,}"
    return f"{len(numbers):,} of {roll.world_size:,} {noun}s ({_short_ranks(numbers)})"


def _short_ranks(ranks: Iterable[int]) -> str:
    """Return ranks as ranges; those that do not fit into so many characters are counted."""
    everyone = sorted(set(ranks))
    text = rank_ranges(everyone)
    if len(text) <= SHORT:
        return text
    kept = text[:SHORT].rpartition(",")[0]
    return f"{kept} and {len(everyone) - len(expand_ranges(kept)):,} more"


def _is_host(place: str) -> bool:
    """Return whether a text is a host name, and no phrase such as ``node 2 of 4``."""
    return " " not in place.strip()


def _expected(roll: Roll) -> str:
    """Return the expected hosts of the missing ranks, in a few words."""
    groups: dict[str, list[int]] = {}
    for rank in roll.missing:
        if rank in roll.expected:
            groups.setdefault(roll.expected[rank], []).append(rank)
    if not groups:
        return ""
    if len(groups) == 1:
        return f", expected on {next(iter(groups))}"
    if all(_is_host(place) for place in groups):
        return f", expected on {shorten_hosts(groups)}"
    named = [f"{_short_ranks(ranks)} on {place}" for place, ranks in list(groups.items())[:MOST_NAMED]]
    more = f" and {len(groups) - MOST_NAMED:,} more nodes" if len(groups) > MOST_NAMED else ""
    return f"; expected: {', '.join(named)}{more}"


def _callers(callers: Sequence[Caller]) -> str:
    """Return processes by host and pid; many of them by their hosts only."""
    if len(callers) <= 2:
        return " and ".join(f"pid {item.pid} on {item.host}" if item.pid else item.host for item in callers)
    return f"processes on {shorten_hosts(item.host for item in callers)}"


def _fetch_them(roll: Roll, named: Sequence[str]) -> Fix:
    there = f" on {shorten_hosts(named)}" if named else ""
    if roll.of == "hosts":
        return Fix(
            f"run the same command on every node, each with its own --node-rank, from 0 to {roll.world_size - 1}; "
            f"see{there} whether it was started, and whether it reaches the master's address and port",
            where="launch-line",
        )
    first = "rank 0, on whom the others wait, did not come: start its node first; " if 0 in roll.missing else ""
    return Fix(
        f"{first}see{there} whether the processes were started, and what they printed last; every node needs the same "
        "number of nodes and processes, and its own --node-rank; torchrun's agents wait up to 600 s for a missing node "
        "by themselves, --rdzv-conf join_timeout=60 shortens that",
        where="launch-line",
    )


def _and_elsewhere(names: Iterable[str]) -> str:
    others = shorten_hosts(names)
    return f"; likewise on {others}" if others else ""


# numbers of ranks


def _world_sizes(cluster: Cluster) -> Iterator[Finding]:
    stated: dict[int, list[tuple[str, int]]] = {}
    for host in cluster.hosts:
        for rank in host.ranks:
            if rank.world_size is not None:
                stated.setdefault(rank.world_size, []).append((host.host, rank.rank))
    if len(stated) < 2:
        return
    groups = sorted(stated.items(), key=lambda item: (-len(item[1]), item[0]))
    shown = [
        f"{size:,} on {shorten_hosts(host for host, _ in ranks)} (ranks {_short_ranks(rank for _, rank in ranks)})"
        for size, ranks in groups[:MOST_NAMED]
    ]
    odd = [pair for _, ranks in groups[1:] for pair in ranks]
    yield rules.DC103.found(
        f"WORLD_SIZE differs between ranks: {', '.join(shown)}",
        where=Where(
            variable="WORLD_SIZE",
            host=place_hosts(host for host, _ in odd),
            ranks=place_ranks(rank for _, rank in odd),
        ),
        evidence={"ranks_by_world_size": {str(size): len(ranks) for size, ranks in groups[:MOST_NAMED]}},
        fix=_COUNT_ALIKE,
    )


def _nodes(host: HostRecord) -> list[list[RankRecord]]:
    """Return the ranks of a host by their node: one machine may run several nodes."""
    nodes: dict[int | None, list[RankRecord]] = {}
    for rank in host.ranks:
        nodes.setdefault(rank.node_rank, []).append(rank)
    return list(nodes.values())


def _local_ranks_clash(ranks: Sequence[RankRecord]) -> bool:
    local = _clashing(ranks)
    if len(local) < 2:
        return False
    # with --virtual-local-rank, and with one GPU a task, each rank has its own mask, and device 0 is another GPU
    if all(_sees_one_device(rank) for rank in local):
        return False
    devices = [rank.device.uuid or rank.device.pci for rank in local if rank.device is not None]
    return len(devices) < len(local) or len(set(devices)) < len(devices)


def _clashing(ranks: Sequence[RankRecord]) -> list[RankRecord]:
    """Return the ranks with the first duplicate local rank."""
    by_number: dict[int, list[RankRecord]] = {}
    for rank in ranks:
        if rank.local_rank is not None:
            by_number.setdefault(rank.local_rank, []).append(rank)
    return next((group for group in by_number.values() if len(group) > 1), [])


def _sees_one_device(rank: RankRecord) -> bool:
    masks = [rank.settings[name] for name in _MASKS if rank.settings.get(name)]
    return bool(masks) and all("," not in mask for mask in masks)


def _local_sizes_clash(ranks: Sequence[RankRecord]) -> bool:
    stated = {rank.local_world_size for rank in ranks if rank.local_world_size is not None}
    if len(stated) > 1:
        return True
    # a node without a number may be two launches on one machine
    return bool(stated) and ranks[0].node_rank is not None and len(ranks) > min(stated)


def _in_a_row(ranks: Sequence[RankRecord]) -> bool:
    numbers = [rank.rank for rank in ranks]
    return max(numbers) - min(numbers) + 1 == len(numbers)


def _given(host: HostRecord) -> int | None:
    """Return the node number of this host from the launch line or the scheduler."""
    for name in NODE_NUMBERS:
        text = host.settings.get(name, "")
        if text.isascii() and text.isdigit():
            return int(text)
    return None


def _out_of_order(hosts: Sequence[HostRecord]) -> tuple[HostRecord, HostRecord] | None:
    """Return two neighbors by node rank with numbers in the other order."""
    numbered = [
        host for host in hosts if host.ranks and host.ranks[0].node_rank is not None and _given(host) is not None
    ]
    numbered.sort(key=lambda host: host.ranks[0].node_rank or 0)
    for first, second in pairwise(numbered):
        if first.ranks[0].node_rank != second.ranks[0].node_rank and (_given(first) or 0) > (_given(second) or 0):
            return first, second
    return None


# identity of hosts


def _one_name_two_memories(cluster: Cluster, nccl: bool) -> Iterator[Finding]:
    """Report containers that NCCL takes for one host by name and boot, and that share no /dev/shm."""
    clashes = []
    for group in _alike(
        cluster.hosts, lambda host: (host.host, host.boot_id, _host_id(host)) if host.boot_id else None
    ):
        parts = {(host.namespaces.get("shm", ""), host.namespaces.get("ipc", "")) for host in group}
        if len(parts) > 1:
            clashes.append(group)
    if not clashes:
        return
    group = clashes[0]
    ranks = sorted(rank.rank for host in group for rank in host.ranks)
    yield rules.DC506.found(
        f"{len(group)} containers are called {group[0].host} on one kernel, so that NCCL takes them for one host, but "
        f"they share no {_what_is_not_shared(group)}{_and_elsewhere(other[0].host for other in clashes[1:])}",
        severity=None if nccl else Severity.INFO,
        where=Where(host=place_hosts(other[0].host for other in clashes), ranks=place_ranks(ranks)),
        evidence={
            "boot_id": group[0].boot_id,
            "shm": sorted({host.namespaces.get("shm", "") for host in group})[:MOST_NAMED],
            "ipc": sorted({host.namespaces.get("ipc", "") for host in group})[:MOST_NAMED],
            "hosts": len(clashes),
        },
        fix=Fix(
            "let them share it (--ipc=host, or one volume at /dev/shm), or give each container its own host name "
            "(--hostname) or its own NCCL_HOSTID",
            where="launch-line",
        ),
    )


def _one_id_two_kernels(cluster: Cluster, nccl: bool) -> Iterator[Finding]:
    """Report an NCCL_HOSTID that two machines share."""
    clashes = [
        group for group in _alike(cluster.hosts, _host_id) if len({host.boot_id for host in group if host.boot_id}) > 1
    ]
    if not clashes:
        return
    everyone = [host for group in clashes for host in group]
    value = _host_id(everyone[0])
    yield rules.DC506.found(
        f"NCCL_HOSTID={value} is the same on {shorten_hosts(host.host for host in everyone)}, so that NCCL takes them "
        "for one host",
        severity=None if nccl else Severity.INFO,
        where=Where(variable="NCCL_HOSTID", host=place_hosts(host.host for host in everyone)),
        evidence={"NCCL_HOSTID": value, "hosts": len(everyone)},
        fix=Fix(
            "remove it from files that all nodes share; if containers need it, give each its own value",
            where="job-script",
        ),
    )


def _one_name_two_kernels(cluster: Cluster) -> Iterator[Finding]:
    """Report two machines with one name: NCCL distinguishes them, but name resolution does not."""
    clashes = [
        group
        for group in _alike(cluster.hosts, lambda host: host.host)
        if len({host.boot_id for host in group if host.boot_id}) > 1
    ]
    if not clashes:
        return
    group = clashes[0]
    c10d = cluster.rendezvous == "c10d"
    yield rules.DC506.found(
        f"{len(group)} machines are called {group[0].host}{_and_elsewhere(other[0].host for other in clashes[1:])}"
        + ("; c10d hands that name to the others as the master's" if c10d else ""),
        severity=None if c10d else Severity.INFO,
        where=Where(host=place_hosts(other[0].host for other in clashes)),
        evidence={
            "name": group[0].host,
            "boot_ids": sorted({host.boot_id for host in group})[:MOST_NAMED],
            "hosts": len(clashes),
        },
        fix=Fix(
            "give each machine a name of its own; until then add --local-addr with the node's own address to each "
            "torchrun",
            by="admin",
            where="host",
        ),
    )


def _one_kernel_two_names(cluster: Cluster) -> Iterator[Finding]:
    """Report containers of one machine that NCCL takes for two hosts."""
    clashes = [
        group
        for group in _alike(cluster.hosts, lambda host: host.boot_id or None)
        if len({(host.host, _host_id(host)) for host in group}) > 1
        and len({_host_id(host) for host in group if _host_id(host)}) != 1
    ]
    if not clashes:
        return
    group = clashes[0]
    names = shorten_hosts(host.host for host in group)
    yield rules.DC506.found(
        f"{names} are containers of one machine, and NCCL takes them for {len(group)} hosts: between them it uses the "
        f"network, not NVLink{f'; {len(clashes) - 1} more machines are like it' if len(clashes) > 1 else ''}",
        severity=Severity.INFO,
        where=Where(host=place_hosts(host.host for host in group)),
        evidence={"boot_id": group[0].boot_id, "containers": len(group), "machines": len(clashes)},
        fix=Fix(
            "if speed between them counts: run the ranks of a machine in one container, or give its containers the "
            "same host name and --ipc=host",
            where="launch-line",
        ),
    )


def _host_id(host: HostRecord) -> str | None:
    """Return the NCCL_HOSTID that all ranks of this host share; different values on one host are intended."""
    common = host.settings.get("NCCL_HOSTID")
    values = {rank.settings.get("NCCL_HOSTID", common) for rank in host.ranks} or {common}
    return (next(iter(values)) or None) if len(values) == 1 else None


def _alike(hosts: Iterable[HostRecord], key: Callable[[HostRecord], object]) -> list[list[HostRecord]]:
    """Return groups of two or more hosts with the same result of a function that is not None."""
    groups: dict[object, list[HostRecord]] = {}
    for host in hosts:
        name = key(host)
        if name is not None:
            groups.setdefault(name, []).append(host)
    return [group for group in groups.values() if len(group) > 1]


def _what_is_not_shared(group: Sequence[HostRecord]) -> str:
    memories = {host.namespaces.get("shm", "") for host in group}
    return "/dev/shm" if len(memories) > 1 else "IPC namespace"


# clocks


class _Skew(NamedTuple):
    """The difference of a clock from the median."""

    host: str
    offset_s: float
    error_s: float

    @property
    def certain_s(self) -> float:
        """Return the difference that remains after the largest error of the measurement."""
        return abs(self.offset_s) - self.error_s


def _skews(hosts: Sequence[HostRecord]) -> list[_Skew]:
    """Return clocks against the median: the first host's clock, by which all were measured, may be wrong."""
    known = [_Skew(host.host, host.clock.offset_s, host.clock.error_s) for host in hosts if host.clock is not None]
    if known and hosts[0].clock is None:
        known.insert(0, _Skew(hosts[0].host, 0.0, 0.0))
    if len(known) < 2:
        return []
    middle = sorted(known, key=lambda item: item.offset_s)[(len(known) - 1) // 2]
    return [
        _Skew(item.host, item.offset_s - middle.offset_s, 0.0 if item is middle else item.error_s + middle.error_s)
        for item in known
    ]
