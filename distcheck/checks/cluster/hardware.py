"""The GPUs of all ranks side by side: two ranks on one, hosts with other ones than the rest, hosts that are slow.

``devices.py`` and ``gpu_health.py`` in ``checks/host`` judge one host by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from distcheck import rules
from distcheck.checks.host.gpu_health import THROTTLES
from distcheck.checks.host.software import version_numbers
from distcheck.core.model import Finding, Fix, Severity, Where
from distcheck.core.registry import probe

from .hostlist import first_ranges, place_hosts, place_ranks, shorten_hosts
from .identity import uses_nccl
from .records import Cluster, Device, HostRecord, RankRecord

#: GPUs and kinds that a message names; the rest is counted.
MOST_NAMED = 4
#: From this release on NCCL compares the partitions of a GPU; before, its PCI address alone.
NCCL_COMPARES_PARTITIONS = (2, 30)
#: With it NCCL lets several ranks use one GPU (NCCL 2.30, experimental).
SHARING = "NCCL_MULTI_RANK_GPU_ENABLE"


class Shared(NamedTuple):
    """Ranks that would use one GPU."""

    device: Device
    ranks: tuple[tuple[HostRecord, RankRecord], ...]

    @property
    def numbers(self) -> list[int]:
        """The ranks' numbers, sorted."""
        return sorted(rank.rank for _, rank in self.ranks)

    @property
    def slices(self) -> bool:
        """They use different MIG instances of it."""
        return len({rank.device.uuid for _, rank in self.ranks if rank.device is not None}) > 1

    @property
    def hosts(self) -> list[str]:
        """The hosts by name; several where containers of one machine share the GPU."""
        return list(dict.fromkeys(host.host for host, _ in self.ranks))


@probe(rules.DC303)
def ranks_have_gpus_of_their_own(cluster: Cluster) -> Iterator[Finding]:
    """No two ranks would use the same GPU, or the same MIG instance; to NCCL, instances of one GPU are the same."""
    shared = _shared_gpus(cluster)
    # NCCL refuses what is one host to it; between containers of other names it only runs slowly
    refused = [item for item in shared if _one_host_to_nccl(item) and not _allowed(item)]
    others = [item for item in shared if item not in refused]
    if refused:
        yield _share_a_gpu(refused, None if cluster.backend and uses_nccl(cluster) else Severity.INFO)
    if others:
        yield _share_a_gpu(others, Severity.INFO)


@probe(rules.DC308)
def hosts_have_equal_gpus(cluster: Cluster) -> Iterator[Finding]:
    """The ranks of all hosts use GPUs of the same kinds."""
    kinds: dict[tuple[str, ...], list[str]] = {}
    for host in cluster.hosts:
        names = tuple(sorted({device.name for device in _used(host) if device.name}))
        # an instance of a MIG GPU differs from every other, and a masked GPU has no effect
        if names and not any(device.uuid.startswith("MIG-") for device in _used(host)):
            kinds.setdefault(names, []).append(host.host)
    if len(kinds) < 2:
        return  # one kind, or the same mixture everywhere, which each host reports by itself
    groups = sorted(kinds.items(), key=lambda item: (-len(item[1]), item[0]))
    count = sum(len(hosts) for _, hosts in groups)
    odd = [host for _, hosts in groups[1:] for host in hosts] if 2 * len(groups[0][1]) > count else []
    shown = [f"{' and '.join(names)} on {shorten_hosts(hosts)}" for names, hosts in groups[:MOST_NAMED]]
    more = f" and {len(groups) - MOST_NAMED} more kinds" if len(groups) > MOST_NAMED else ""
    hurts = cluster.launched and uses_nccl(cluster)
    yield rules.DC308.found(
        f"the hosts have GPUs of different kinds: {', '.join(shown)}{more}",
        severity=None if hurts else Severity.INFO,
        where=Where(host=place_hosts(odd)),
        evidence={"hosts_by_kind": {" + ".join(names): len(hosts) for names, hosts in groups[:MOST_NAMED]}},
        fix=Fix(
            f"exclude {shorten_hosts(odd) if odd else 'the hosts of one kind'} (--exclude or --constraint under Slurm, "
            "a node selector under Kubernetes), or plan with the slowest card's speed and the smallest card's memory",
            where="launch-line",
        ),
    )


@probe(rules.DC310)
def hosts_run_at_speed(cluster: Cluster) -> Iterator[Finding]:
    """No host has GPUs that heat or the power supply slows down."""
    if len(cluster.hosts) < 2:
        return  # the host reports it itself, with its temperatures
    slow: dict[str, list[tuple[RankRecord | None, Device]]] = {}
    for host in cluster.hosts:
        pairs: list[tuple[RankRecord | None, Device]] = [
            (rank, _now(host, rank.device)) for rank in host.ranks if rank.device is not None
        ]
        for rank, device in pairs or [(None, device) for device in host.gpus]:
            if any(reason in THROTTLES for reason in device.throttle):
                slow.setdefault(host.host, []).append((rank, device))
    if not slow:
        return
    reasons = Counter(
        THROTTLES[reason]
        for pairs in slow.values()
        for _, device in pairs
        for reason in device.throttle
        if reason in THROTTLES
    )
    ranks = sorted({rank.rank for pairs in slow.values() for rank, _ in pairs if rank is not None})
    count = sum(len(pairs) for pairs in slow.values())
    yield rules.DC310.found(
        f"{count:,} GPU{'s' * (count != 1)} on {shorten_hosts(slow)} {'are' if count != 1 else 'is'} slowed down by "
        f"{' and '.join(reason for reason, _ in reasons.most_common(2))}"
        + (f" (rank{'s' * (len(ranks) != 1)} {first_ranges(ranks, dots=True)})" if ranks else ""),
        severity=None if cluster.launched and uses_nccl(cluster) else Severity.INFO,
        where=Where(host=place_hosts(slow), ranks=place_ranks(ranks)),
        evidence={"gpus": count, "hosts": len(slow), "gpus_by_reason": dict(reasons)},
        fix=Fix(
            "have an administrator check the cooling and the power supply of these hosts. Until then exclude them: "
            "in a collective all ranks wait for the slowest",
            by="admin",
            where="host",
        ),
    )


def _used(host: HostRecord) -> list[Device]:
    """The GPUs that the ranks of a host would use; where nothing is launched, all that it has."""
    devices = [rank.device for rank in host.ranks if rank.device is not None]
    return devices or list(host.gpus)


def _now(host: HostRecord, device: Device) -> Device:
    """A rank's GPU as the host's own list has it: read once, for all ranks at the same time."""
    return next((gpu for gpu in host.gpus if gpu.uuid and gpu.uuid == device.uuid), device)


def _shared_gpus(cluster: Cluster) -> list[Shared]:
    used: dict[tuple[str, str], list[tuple[HostRecord, RankRecord]]] = {}
    for host in cluster.hosts:
        # names may be the same on machines that were cloned, and a boot_id is the same in all containers of a machine
        machine = host.boot_id or host.host
        for rank in host.ranks:
            name = "" if rank.device is None else _as_nccl_compares(host, rank.device)
            if name:
                used.setdefault((machine, name), []).append((host, rank))
    return [Shared(group[0][1].device or Device(""), tuple(group)) for group in used.values() if len(group) > 1]


def _as_nccl_compares(host: HostRecord, device: Device) -> str:
    """Return what identifies a GPU to NCCL; "" if unknown."""
    nccl = version_numbers(host.versions.get("nccl", ""))
    if device.uuid.startswith("MIG-") and () < nccl < NCCL_COMPARES_PARTITIONS:
        return device.pci
    return device.uuid or device.pci


def _one_host_to_nccl(item: Shared) -> bool:
    """At least two of the ranks have the same host by NCCL's measure: NCCL_HOSTID, else name and boot."""
    seen = Counter(
        rank.settings.get("NCCL_HOSTID") or host.settings.get("NCCL_HOSTID") or (host.host, host.boot_id)
        for host, rank in item.ranks
    )
    return max(seen.values()) > 1


def _allowed(item: Shared) -> bool:
    """Return whether both requested peer access."""
    return all(
        (rank.settings.get(SHARING) or host.settings.get(SHARING, "0")).strip() not in ("", "0")
        for host, rank in item.ranks
    )


def _share_a_gpu(shared: Sequence[Shared], severity: Severity | None) -> Finding:
    shown = [
        f"ranks {first_ranges(item.numbers, dots=True)} on {' and '.join(item.hosts[:2])} ({_called(item)})"
        for item in shared[:MOST_NAMED]
    ]
    more = f" and {len(shared) - MOST_NAMED:,} more GPUs" if len(shared) > MOST_NAMED else ""
    ranks = sorted({number for item in shared for number in item.numbers})
    return rules.DC303.found(
        f"several ranks would use one GPU: {', '.join(shown)}{more}",
        severity=severity,
        where=Where(
            host=place_hosts(host for item in shared for host in item.hosts),
            ranks=place_ranks(ranks),
            gpu=(shared[0].device.uuid or shared[0].device.pci) if len(shared) == 1 else None,
        ),
        evidence={
            "gpus": len(shared),
            "ranks": len(ranks),
            "first": [
                {"uuid": item.device.uuid, "pci": item.device.pci, "ranks": item.numbers[:MOST_NAMED]}
                for item in shared[:MOST_NAMED]
            ],
        },
        fix=_spread_them(shared),
    )


def _called(item: Shared) -> str:
    slices = ", whose MIG instances are one GPU to NCCL" if item.slices else ""
    device = item.device
    return (
        " ".join(part for part in (device.name, device.pci if slices else device.uuid or device.pci) if part) + slices
    )


def _spread_them(shared: Sequence[Shared]) -> Fix:
    first = shared[0]
    host = first.ranks[0][0]
    local = {rank.local_rank for _, rank in first.ranks}
    if first.slices:
        return Fix(
            "let each rank use an instance of another GPU, or have an administrator turn MIG off: NCCL compares PCI "
            "addresses. To use the instances as they are: backend gloo",
            where="each-task",
        )
    if len(first.hosts) > 1:
        return Fix("give each container GPUs of its own: they were given the same", where="launch-line")
    if len(host.gpus) == 1:
        return Fix(
            "start one process for each GPU: --nproc-per-node=1 on this host; to try something out with more, use the "
            "backend gloo",
            where="launch-line",
        )
    if len(local) < len(first.ranks):
        return Fix(
            "let each rank have a LOCAL_RANK of its own, and take that device before the group is made: "
            'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))',
            where="launch-line",
        )
    return Fix(
        "let all ranks of a host see the same GPUs, as many as there are ranks: one mask for all, or none. Then each "
        'rank selects its own: torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))',
        where="job-script",
    )
