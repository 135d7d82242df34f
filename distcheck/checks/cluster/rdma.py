"""The RDMA ports of all hosts, and the network plug-in of NCCL, compared."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from distcheck import rules
from distcheck.checks.host.fabric import LEAST_PEERS
from distcheck.checks.host.nccl_interfaces import MOST_DEVICES, parse_filter
from distcheck.core.model import Finding, Fix, Severity, Where
from distcheck.core.registry import probe

from .failed_connections import MOST_SHOWN
from .hostlist import compress_hosts, shorten_hosts
from .identity import uses_nccl
from .records import Cluster, HostRdmaPort, HostRecord

# RDMA


@probe(rules.DC413, rules.DC414)
def rdma_ports_are_alike(cluster: Cluster) -> Iterator[Finding]:
    """Report hosts of one kind with different RDMA ports ACTIVE, or at different rates."""
    if not cluster.launched or len(cluster.hosts) < 2 or not uses_nccl(cluster):
        return
    for peers in _kinds(cluster):
        yield from _ports_missing(peers)
        yield from _ports_down(peers)
        yield from _ports_slow(peers)


@probe(rules.DC334)
def plugins_are_alike(cluster: Cluster) -> Iterator[Finding]:
    """Report a network plug-in of NCCL that only some hosts have."""
    if not uses_nccl(cluster) or len(cluster.hosts) < 2:
        return
    hosts = [
        host
        for host in cluster.hosts
        # a host that cannot be checked reports it itself; so does one whose variable names a missing plug-in
        if not host.unavailable.keys() & {"plugins", "rdma_ports"}
    ]
    named = {host.host for host in hosts if host.settings.get("NCCL_NET_PLUGIN") not in (None, "", "none")}
    counts = Counter(name for host in hosts for name in set(host.plugins))
    for name, count in sorted(counts.items()):
        without = [host.host for host in hosts if name not in host.plugins and host.host not in named]
        if not without or count == len(hosts):
            continue
        having = [host.host for host in hosts if name in host.plugins]
        few, verb = (without, "not found on") if len(without) <= len(having) else (having, "found only on")
        yield rules.DC334.found(
            f"{name} is {verb} {shorten_hosts(few)}, of {len(hosts):,} hosts: NCCL takes different networks, and "
            "hangs or falls back to the slower one",
            severity=Severity.WARNING if cluster.launched else Severity.INFO,
            where=Where(host=compress_hosts(few), object=name),
            evidence={"plugin": name, "hosts_with": count, "hosts_without": len(hosts) - count},
            fix=Fix(
                "have the plug-in installed on all hosts alike, or its folder on LD_LIBRARY_PATH in the job script; "
                "NCCL_NET_PLUGIN=none in the job script makes all do without it",
                by="admin",
                where="host",
            ),
        )


# RDMA


class _RdmaShape(NamedTuple):
    """Hosts with the same RDMA ports, and one of them."""

    record: HostRecord
    #: what NCCL would use: EFA and Omni-Path need a plug-in, and devices that NCCL_IB_HCA excludes do not count
    ports: tuple[HostRdmaPort, ...]
    hosts: list[str]


def _kinds(cluster: Cluster) -> list[list[_RdmaShape]]:
    """Return hosts that should be equal: with the same GPUs. Hosts without GPUs carry no GPU traffic.

    Those of a kind are joined where their ports are the same, so that thousands of equal hosts cost as much as one.
    """
    kinds: dict[tuple[str, int], dict[tuple[object, ...], _RdmaShape]] = defaultdict(dict)
    for host in cluster.hosts:
        if not host.gpus or "rdma_ports" in host.unavailable:
            continue
        shapes = kinds[host.gpus[0].name, len(host.gpus)]
        key = (host.rdma_ports, host.settings.get("NCCL_IB_HCA"))
        if key not in shapes:
            counted = tuple(
                port
                for port in host.rdma_ports
                if port.selected and not port.efa and not port.device.startswith(("hfi1", "opa"))
            )
            shapes[key] = _RdmaShape(host, counted, [])
        shapes[key].hosts.append(host.host)
    return [list(shapes.values()) for shapes in kinds.values() if len(shapes) > 1]


def _size(peers: Sequence[_RdmaShape]) -> int:
    return sum(len(shape.hosts) for shape in peers)


def _ports_missing(peers: Sequence[_RdmaShape]) -> Iterator[Finding]:
    """Return hosts with fewer ports than most, or none: the device is missing, or was not passed into the container."""
    usual = _most_common(((len(shape.ports), len(shape.hosts)) for shape in peers), _size(peers))
    active = ((sum(port.state == "ACTIVE" for port in shape.ports), len(shape.hosts)) for shape in peers)
    if not usual or not _most_common(active, _size(peers)):
        return
    counts = {host: len(shape.ports) for shape in peers for host in shape.hosts if len(shape.ports) < usual}
    if not counts:
        return
    few = [host for host, count in counts.items() if not count] or list(counts)
    here = min(counts[host] for host in few)
    rest = _size(peers) - len(counts)
    yield rules.DC413.found(
        f"{shorten_hosts(few)} {'has' if len(few) == 1 else 'have'} {here or 'no'} RDMA port{'s' * (here != 1)}, and "
        f"{rest:,} host{'s' * (rest != 1)} with the same GPUs {'has' if rest == 1 else 'have'} {usual}: NCCL can't use "
        "the others' with them",
        where=Where(host=compress_hosts(few)),
        evidence={
            "rdma_ports_here": here,
            "rdma_ports_usual": usual,
            "hosts": len(few),
            "compared_hosts": _size(peers),
        },
        fix=Fix(
            "see whether the container there has /dev/infiniband like the others, and have an administrator see "
            "whether the card is still on the bus ('ls /sys/class/infiniband'); until then exclude the host",
            by="admin",
            where="host",
        ),
    )


def _most_common(values: Iterable[tuple[int, int]], total: int) -> int | None:
    """Return the value of more than half of the hosts; of two hosts the greater one."""
    counts: Counter[int] = Counter()
    for value, hosts in values:
        counts[value] += hosts
    if total == 2:
        return max(counts)
    value, count = counts.most_common(1)[0]
    return value if count * 2 > total else None


def _ports_down(peers: Sequence[_RdmaShape]) -> Iterator[Finding]:
    """Report a port that is ACTIVE on most hosts and not on some."""
    seen: Counter[tuple[str, int]] = Counter()
    active: Counter[tuple[str, int]] = Counter()
    for shape in peers:
        for port in shape.ports:
            seen[port.device, port.port] += len(shape.hosts)
            active[port.device, port.port] += len(shape.hosts) * (port.state == "ACTIVE")
    # with two hosts, one ACTIVE port is enough to report the other
    usual = {key for key in seen if active[key] * 2 > seen[key] or (active[key] and _size(peers) == 2)}
    down: dict[tuple[tuple[str, str], ...], list[str]] = defaultdict(list)
    for shape in peers:
        names = tuple(
            (f"{port.device}:{port.port}", port.state)
            for port in shape.ports
            if port.state != "ACTIVE" and (port.device, port.port) in usual and not _has_reported(shape.record, port)
        )
        if names:
            down[names].extend(shape.hosts)
    for ports, hosts in sorted(down.items(), key=lambda item: -len(item[1]))[:MOST_SHOWN]:
        named = _named(name for name, _ in ports)
        yield rules.DC414.found(
            f"{named} {'is' if len(ports) == 1 else 'are'} {ports[0][1] or 'not ACTIVE'} on {shorten_hosts(hosts)} and "
            f"ACTIVE on most of {_size(peers):,} hosts with the same GPUs",
            where=Where(host=compress_hosts(hosts), object=named),
            evidence={"ports": [name for name, _ in ports][:MOST_SHOWN], "hosts": len(hosts)},
            fix=Fix(
                "have an administrator check the cable and the switch port of this device. 'cat "
                "/sys/class/infiniband/DEVICE/ports/1/phys_state' shows why. Until then exclude the host",
                by="admin",
                where="host",
            ),
        )


def _has_reported(host: HostRecord, port: HostRdmaPort) -> bool:
    """Return whether the host itself reported this port as down: NCCL_IB_HCA names it, or most of its ports are up."""
    wanted = parse_filter(host.settings.get("NCCL_IB_HCA") or "", MOST_DEVICES)
    if wanted.entries and not wanted.exclude and wanted.names(port.device, port.port):
        return True
    alike = [other for other in host.rdma_ports if other.link_layer == port.link_layer and not other.efa]
    single = Counter(other.device for other in alike)
    alike = [other for other in alike if single[other.device] == 1]
    active = sum(other.state == "ACTIVE" for other in alike)
    return port in alike and len(alike) >= LEAST_PEERS and active * 2 > len(alike)


def _ports_slow(peers: Sequence[_RdmaShape]) -> Iterator[Finding]:
    """Report a port that is ACTIVE at a lower rate than on most hosts."""
    if _size(peers) < LEAST_PEERS:
        return
    rates: dict[tuple[str, int], Counter[float]] = defaultdict(Counter)
    for shape in peers:
        for port in shape.ports:
            if port.state == "ACTIVE" and port.rate_gbit_per_s:
                rates[port.device, port.port][port.rate_gbit_per_s] += len(shape.hosts)
    slow: dict[tuple[float, float], tuple[set[str], set[str]]] = {}
    for shape in peers:
        for port in shape.ports:
            of_port = rates[port.device, port.port]
            if port.state != "ACTIVE" or not port.rate_gbit_per_s:
                continue
            usual, count = of_port.most_common(1)[0]
            if count * 2 > sum(of_port.values()) and port.rate_gbit_per_s < usual:
                hosts, ports = slow.setdefault((port.rate_gbit_per_s, usual), (set(), set()))
                hosts.update(shape.hosts)
                ports.add(f"{port.device}:{port.port}")
    for (rate, usual), (hosts, ports) in sorted(slow.items())[:MOST_SHOWN]:
        yield rules.DC414.found(
            f"{_named(sorted(ports))} {'runs' if len(ports) == 1 else 'run'} at {rate:g} Gbit/s on "
            f"{shorten_hosts(hosts)} and at {usual:g} Gbit/s on most of {_size(peers):,} hosts with the same GPUs",
            where=Where(host=compress_hosts(hosts), object=_named(sorted(ports))),
            evidence={"rate_gbit_per_s": rate, "usual_gbit_per_s": usual, "hosts": len(hosts), "ports": len(ports)},
            fix=Fix(
                "have an administrator check the cable, its transceivers and the switch port. A link with fewer lanes "
                "or a lower rate is ACTIVE, too",
                by="admin",
                where="host",
            ),
        )


def _named(names: Iterable[str]) -> str:
    everyone = list(names)
    shown = ", ".join(everyone[:3])
    return f"{shown} and {len(everyone) - 3} more" if len(everyone) > 3 else shown
