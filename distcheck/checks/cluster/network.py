"""The networks of all hosts, compared: interfaces, addresses and MTUs.

Ports are in ``closed_ports.py``, RDMA is in ``rdma.py``. Findings about one host alone belong to ``checks/host``
(``interface_checks.py``, ``fabric.py``, ``software.py``), and missing hosts to ``membership.py``.
"""

from __future__ import annotations

import ipaddress
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from distcheck import rules
from distcheck.checks.host.addresses import bare, is_loopback, same_subnet
from distcheck.checks.host.interfaces import HOST_ONLY_NAMES, VPN_NAMES
from distcheck.core.model import Finding, Fix, Severity, Unavailable, Where, grouped, grouped_pairs
from distcheck.core.registry import probe
from distcheck.rules import shared_fixes

from .failed_connections import MOST_SHOWN, blocked_pairs, blocked_wholly, hosts_in_common, pair_text
from .hostlist import compress_hosts, shorten_hosts
from .identity import uses_nccl
from .records import Cluster, ConnectionAttempt, HostInterface, HostRecord, Reach

#: Engines whose containers have their own network by default; pods reach each other.
_ENGINES = ("docker", "podman")
#: Default networks of containers in Docker and Podman: 172.17.0.0/16 (the first of
#: Docker's ``default-address-pools``) and 10.88.0.0/16 (Podman's network ``podman``).
_OWN_NETWORKS = ("172.17.", "10.88.")
_NETWORKS_FIX = (
    "so that every rank listens in the same network; 'ip route get ADDRESS-OF-ANOTHER-HOST' shows the interface "
    "after dev"
)


class _Carrier(NamedTuple):
    """The interface on which a host's libraries listen, and its address."""

    host: HostRecord
    interface: HostInterface
    #: with netmask
    address: str

    @property
    def family(self) -> str:
        return "IPv6" if ":" in bare(self.address) else "IPv4"


# interfaces


@probe(rules.DC406)
def interfaces_lead_to_each_other(cluster: Cluster, reach: Reach | Unavailable) -> Iterator[Finding]:
    """Report interfaces, as the hosts' libraries choose them, in networks that do not reach each other.

    Different names and different subnets are healthy; it takes connections that failed, or one address on two
    machines, to speak.
    """
    if not cluster.launched or len(cluster.hosts) < 2:
        return
    carriers = _carriers(cluster)
    library = "NCCL" if uses_nccl(cluster) else "gloo"
    shared = _same_address(carriers, reach)
    if shared:
        yield _one_address(shared, library, reach)
    blocked = blocked_pairs(reach)
    if not blocked:
        if isinstance(reach, Unavailable):
            yield from _families_differ(carriers, library, Severity.WARNING)
        return
    known = {carrier.host.host for carrier in shared} | _reported_by_hosts(carriers, library)
    families = [item for item in carriers.values() if item.host.host not in known]
    if len({item.family for item in families}) > 1:
        mixed = {pair for pair in blocked if _differ_in_family(carriers, pair)}
        if mixed:
            yield from _families_differ({item.host.host: item for item in families}, library, Severity.ERROR)
            return
    astray = {host: way for host, way in _astray(carriers, blocked).items() if host not in known}
    if astray:
        yield _other_network(astray, carriers, library)


@probe(rules.DC411)
def containers_share_a_network(cluster: Cluster, reach: Reach | Unavailable) -> Iterator[Finding]:
    """Report containers on several machines that listen on a network of their own machine only."""
    if not cluster.launched:
        return
    machines = {host.boot_id for host in cluster.hosts if host.boot_id}
    if len(machines) < 2:  # containers on one machine reach each other
        return
    blocked = blocked_pairs(reach)
    concerned = []
    for carrier in _carriers(cluster).values():
        if not _in_container_network(carrier):
            continue
        host = carrier.host.host
        if isinstance(reach, Unavailable):
            if bare(carrier.address).startswith(_OWN_NETWORKS):
                concerned.append(carrier)
        elif any(host in pair for pair in blocked):
            concerned.append(carrier)
    if not concerned:
        return
    hosts = [carrier.host.host for carrier in concerned]
    first = concerned[0]
    yield rules.DC411.found(
        f"{shorten_hosts(hosts)} {_listen(hosts)} in a container's own network ({first.interface.name}, "
        f"{bare(first.address)} on {first.host.host}), which does not lead to other machines",
        where=Where(host=compress_hosts(hosts)),
        evidence={
            "addresses": sorted({bare(carrier.address) for carrier in concerned})[:MOST_SHOWN],
            "hosts": len(hosts),
            "engines": sorted({carrier.host.container or "" for carrier in concerned}),
        },
        fix=shared_fixes.NETWORK_OF_THE_HOST,
    )


@probe(rules.DC410)
def mtu_is_equal(cluster: Cluster, reach: Reach | Unavailable) -> Iterator[Finding]:
    """Report interfaces with different MTUs, and large blocks that do not pass where small packets do."""
    if len(cluster.hosts) < 2 or not cluster.launched:
        return
    stalled = [] if isinstance(reach, Unavailable) else [item for item in reach.failed if item.outcome == "stalled"]
    carriers = _carriers(cluster)
    known = {host: item for host, item in carriers.items() if item.interface.mtu_bytes}
    by_mtu = grouped_pairs((item.interface.mtu_bytes or 0, host) for host, item in known.items())
    if len(by_mtu) > 1:
        yield _mtus_differ(by_mtu, known, stalled, reach)
    elif stalled:
        yield _blocks_stall(stalled, by_mtu)
    elif not known and carriers:
        raise Unavailable("no host knows the MTU of the interface that carries its traffic")


# selection


def _carriers(cluster: Cluster) -> dict[str, _Carrier]:
    """Return the listening address of each host by name; hosts without one, or with loopback only, are dropped."""
    nccl = uses_nccl(cluster)
    found = {}
    for host in cluster.hosts:
        for item in host.interfaces:
            if (item.nccl if nccl else item.gloo) and item.addresses and not is_loopback(item.addresses[0]):
                found[host.host] = _Carrier(host, item, item.addresses[0])
                break
    return found


def _is_virtual(item: HostInterface) -> bool:
    return item.name.startswith((*HOST_ONLY_NAMES, *VPN_NAMES))


def _reported_by_hosts(carriers: Mapping[str, _Carrier], library: str) -> set[str]:
    """Return hosts with a finding of their own on the interface: a bridge, link-local or a VPN (DC406 of one host)."""
    if library != "NCCL":
        return set()
    return {
        host
        for host, item in carriers.items()
        if item.interface.name.startswith(HOST_ONLY_NAMES)
        or (item.interface.name.startswith(VPN_NAMES) and not item.host.settings.get("NCCL_SOCKET_IFNAME"))
        or bare(item.address).lower().startswith(("fe8", "fe9", "fea", "feb"))
    }


def _in_container_network(carrier: _Carrier) -> bool:
    """Return whether a container of an engine listens on its end of a virtual cable."""
    return carrier.host.container in _ENGINES and carrier.interface.kind == "veth"


def explained_hosts(
    cluster: Cluster, reach: Reach, failed: Mapping[tuple[str, str], Sequence[ConnectionAttempt]]
) -> set[str]:
    """Return hosts with a problem of interface, address or container network: their ports are not the cause."""
    carriers = _carriers(cluster)
    library = "NCCL" if uses_nccl(cluster) else "gloo"
    if not cluster.launched or not failed:
        return set()
    blocked = blocked_wholly(failed, reach)
    explained = _reported_by_hosts(carriers, library)
    explained |= {carrier.host.host for carrier in _same_address(carriers, reach)}
    if len({host.boot_id for host in cluster.hosts if host.boot_id}) > 1:
        explained |= {host for host, item in carriers.items() if _in_container_network(item)}
    explained |= set(_astray(carriers, blocked))
    usual = _usual(item.family for item in carriers.values())
    mixed = any(item.family != usual for item in carriers.values())
    for pair in blocked if mixed else ():
        if _differ_in_family(carriers, pair):
            explained |= {host for host in pair if carriers[host].family != usual}
    return explained


def _same_address(carriers: Mapping[str, _Carrier], reach: Reach | Unavailable) -> list[_Carrier]:
    """Return carriers of different machines with one address, which cannot lead from one to the other."""
    if not isinstance(reach, Unavailable) and not reach.failed and reach.tried:
        return []
    by_address: dict[str, list[_Carrier]] = defaultdict(list)
    for item in carriers.values():
        if not _in_container_network(item):  # DC411
            by_address[bare(item.address)].append(item)
    found = []
    for items in by_address.values():
        boots = [item.host.boot_id for item in items]
        if len(items) > 1 and all(boots) and len(set(boots)) > 1:
            found.extend(items)
    return found


def _differ_in_family(carriers: Mapping[str, _Carrier], pair: tuple[str, str]) -> bool:
    one, other = (carriers.get(host) for host in pair)
    return one is not None and other is not None and one.family != other.family


def _usual(values: Iterable[str]) -> str:
    return max(sorted(Counter(values).items()), key=lambda item: item[1], default=("", 0))[0]


def _one_address(shared: Sequence[_Carrier], library: str, reach: Reach | Unavailable) -> Finding:
    first = shared[0]
    hosts = [item.host.host for item in shared]
    machines = sum(bare(item.address) == bare(first.address) for item in shared)
    return rules.DC406.found(
        f"{library} takes {first.interface.name} on {shorten_hosts(hosts)}, and {bare(first.address)} stands there on "
        f"{machines:,} machines: it leads from none to another",
        severity=Severity.WARNING if isinstance(reach, Unavailable) else Severity.ERROR,
        where=Where(host=compress_hosts(hosts), variable=_variable(library), object=first.interface.name),
        evidence={
            "addresses": sorted({bare(item.address) for item in shared})[:MOST_SHOWN],
            "interfaces": sorted({item.interface.name for item in shared})[:MOST_SHOWN],
            "hosts": len(hosts),
        },
        fix=_name_interface(library, None, f"name the interface that leads to the other hosts, {_NETWORKS_FIX}"),
    )


def _families_differ(carriers: Mapping[str, _Carrier], library: str, severity: Severity) -> Iterator[Finding]:
    """Return whether some hosts listen on IPv4 and some on IPv6."""
    by_family = grouped_pairs((item.family, host) for host, item in carriers.items())
    if len(by_family) < 2:
        return
    usual = _usual(item.family for item in carriers.values())
    few = next(hosts for family, hosts in by_family.items() if family != usual)
    other = next(family for family in by_family if family != usual)
    first = carriers[few[0]]
    both = all(_has_family(carriers[host].host, usual) for host in few)
    setting = f"NCCL_SOCKET_FAMILY={'AF_INET6' if usual == 'IPv6' else 'AF_INET'}"
    rest = len(by_family[usual])
    yield rules.DC406.found(
        f"{library} listens on {other} on {shorten_hosts(few)} ({first.interface.name}, {bare(first.address)}) and on "
        f"{usual} on {rest:,} other{'s' * (rest != 1)}: they can't connect to each other",
        severity=severity,
        where=Where(
            host=compress_hosts(few), variable="NCCL_SOCKET_FAMILY" if library == "NCCL" else _variable(library)
        ),
        evidence={"hosts_ipv4": len(by_family["IPv4"]), "hosts_ipv6": len(by_family["IPv6"])},
        fix=Fix(
            f"set {setting} in the job script, so that all take {usual}",
            command=f"export {setting}",
            where="job-script",
        )
        if both and library == "NCCL"
        else Fix(f"have these hosts given {usual} addresses in the network of the others", by="admin", where="host"),
    )


def _has_family(host: HostRecord, family: str) -> bool:
    addresses = [bare(address) for item in host.interfaces for address in item.addresses]
    return any((":" in address) is (family == "IPv6") and not is_loopback(address) for address in addresses)


class _SharedNetwork(NamedTuple):
    """Return an interface of a host in the network of the others."""

    carrier: _Carrier
    better: HostInterface


def _astray(carriers: Mapping[str, _Carrier], blocked: set[tuple[str, str]]) -> dict[str, _SharedNetwork]:
    """Return hosts that listen in another network than most, without a route, although another interface has one."""
    if not blocked:
        return {}
    usual = _usual_network(carriers)
    if usual is None:
        return {}
    found = {}
    concerned = {host for pair in blocked for host in pair}
    for host in sorted(concerned & carriers.keys()):
        item = carriers[host]
        if _near(item.address, usual.address):
            continue
        for other in item.host.interfaces:
            if other is not item.interface and any(_near(address, usual.address) for address in other.addresses):
                found[host] = _SharedNetwork(item, other)
                break
    return found


def _usual_network(carriers: Mapping[str, _Carrier]) -> _Carrier | None:
    """Return a host in the network in which most listen; None if no network has more than one.

    Of two hosts in two networks the one is usual to which the other has an interface.
    """
    networks = grouped(carriers.values(), lambda item: _network(item.address))
    ranked = sorted(networks.values(), key=lambda items: (-len(items), _is_virtual(items[0].interface)))
    if len(ranked) < 2:
        return None
    if len(ranked[0]) > len(ranked[1]):
        return ranked[0][0]
    for first, second in ((ranked[0], ranked[1]), (ranked[1], ranked[0])):
        ways = [
            any(_near(address, first[0].address) for other in item.host.interfaces for address in other.addresses)
            for item in second
        ]
        if all(ways):
            return first[0]
    return None


def _network(address: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """Return the network of an address with a netmask; None for an invalid one."""
    try:
        return ipaddress.ip_interface(address.replace(address.partition("/")[0], bare(address))).network
    except ValueError:
        return None


def _near(own: str, other: str) -> bool:
    return same_subnet(own, other) or same_subnet(other, own)


def _other_network(astray: Mapping[str, _SharedNetwork], carriers: Mapping[str, _Carrier], library: str) -> Finding:
    hosts = list(astray)
    way = astray[hosts[0]]
    usual = _usual_network(carriers)
    names = sorted({item.better.name for item in astray.values()})
    if usual is not None:
        names = sorted({*names, *(item.interface.name for host, item in carriers.items() if host not in astray)})
    return rules.DC406.found(
        f"{library} takes {way.carrier.interface.name} ({bare(way.carrier.address)}) on {shorten_hosts(hosts)}, which "
        f"does not reach the others; {way.better.name} lies in their network"
        + (f" ({_network(usual.address) or bare(usual.address)})" if usual is not None else ""),
        severity=Severity.ERROR,
        where=Where(host=compress_hosts(hosts), variable=_variable(library), object=way.carrier.interface.name),
        evidence={
            "takes": way.carrier.interface.name,
            "address": bare(way.carrier.address),
            "in_the_others_network": way.better.name,
            "hosts": len(hosts),
        },
        fix=_name_interface(
            library,
            names if len(names) <= MOST_SHOWN else None,
            f"name the interface of the common network, {_NETWORKS_FIX}",
        ),
    )


def _name_interface(library: str, names: Sequence[str] | None, text: str) -> Fix:
    variable = _variable(library)
    if names is None or (library == "gloo" and len(names) > 1):
        each = "" if library == "NCCL" else ", on each host its own where their names differ"
        return Fix(f"{text}: set {variable} in the job script{each}", where="job-script")
    value = f"={','.join(names)}" if library == "NCCL" else names[0]
    return Fix(f"{text}: {variable}={value}", command=f"export {variable}={value}", where="job-script")


def _variable(library: str) -> str:
    return "NCCL_SOCKET_IFNAME" if library == "NCCL" else "GLOO_SOCKET_IFNAME"


# MTUs


def _mtus_differ(
    by_mtu: Mapping[int, Sequence[str]],
    carriers: Mapping[str, _Carrier],
    stalled: Sequence[ConnectionAttempt],
    reach: Reach | Unavailable,
) -> Finding:
    ranked = sorted(by_mtu.items(), key=lambda item: (-len(item[1]), item[0]))
    usual, many = ranked[0]
    even = len(ranked[1][1]) == len(many)
    few = [host for mtu, hosts in ranked if mtu != usual or even for host in hosts]
    model = carriers[many[0]]
    apart = [host for mtu, hosts in ranked[1:] for host in hosts]
    routed = not any(_near(carriers[host].address, model.address) for host in apart)
    if stalled:
        then = f", and large blocks don't pass between some ({pair_text(stalled)})"
    elif isinstance(reach, Unavailable):
        then = ""
    else:
        then = "; large blocks of TCP pass all the same"
    groups = [(mtu, hosts) for mtu, hosts in ranked if even or mtu != usual][:3]
    text = ", ".join(f"{mtu} bytes on {shorten_hosts(hosts)}" for mtu, hosts in groups)
    most = "" if even else f" and {usual} on the other {len(many):,}"
    first = carriers[few[0]]
    return rules.DC410.found(
        f"the MTU of the interfaces that carry traffic is {text}{most}{then}",
        # networks that a router joins may have different MTUs
        severity=Severity.INFO if routed and not stalled else Severity.WARNING,
        where=Where(host=compress_hosts(few), object=first.interface.name if len(few) == 1 else None),
        evidence={
            "hosts_by_mtu_bytes": {str(mtu): len(hosts) for mtu, hosts in ranked[:MOST_SHOWN]},
            "interfaces": sorted({carriers[host].interface.name for host in few})[:MOST_SHOWN],
            "stalled_connections": len(stalled),
        },
        fix=Fix(
            "have one MTU set on these interfaces of all hosts, one that every switch and tunnel in between passes"
            + ("" if even else f" ({usual} is what most have)"),
            by="admin",
            where="host",
        ),
    )


def _blocks_stall(stalled: Sequence[ConnectionAttempt], by_mtu: Mapping[int, Sequence[str]]) -> Finding:
    mtu = next(iter(by_mtu), None)
    hosts = hosts_in_common(stalled)
    own = f" of {mtu} bytes" if mtu else ""
    return rules.DC410.found(
        f"small packets pass and large blocks do not: {pair_text(stalled)}; something between the hosts drops packets "
        f"below their MTU{own} without a report",
        where=Where(host=compress_hosts(hosts)),
        evidence={
            "mtu_bytes": mtu,
            "stalled_connections": len(stalled),
            "pairs": [[item.source, item.target] for item in stalled[:MOST_SHOWN]],
        },
        fix=Fix(
            "have the switches, tunnels or overlays between them pass the hosts' MTU, or lower it on all hosts. Test "
            "1500 bytes with 'ping -M do -s 1472 ADDRESS', and 9000 with 8972. Let ICMP through",
            by="admin",
            where="host",
        ),
    )


def _listen(hosts: Sequence[str]) -> str:
    return "listens" if len(hosts) == 1 else "listen"
