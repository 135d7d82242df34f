"""The network of all hosts: interfaces, MTUs, ports and RDMA compared, and which hosts reached which.

Findings about one host alone belong to ``checks/host`` (``interface_checks.py``, ``fabric.py``, ``software.py``), and
missing hosts to ``membership.py``.
"""

from __future__ import annotations

import ipaddress
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from distcheck import rules
from distcheck.checks.host.addresses import bare, is_loopback, same_subnet
from distcheck.checks.host.fabric import LEAST_PEERS
from distcheck.checks.host.interfaces import HOST_ONLY_NAMES, VPN_NAMES
from distcheck.checks.host.nccl_interfaces import MOST_DEVICES, parse_filter
from distcheck.core.model import Finding, Fix, Severity, Unavailable, Where, grouped, grouped_pairs
from distcheck.core.registry import probe
from distcheck.rules import shared_fixes

from .connectivity import peers_of
from .hostlist import compress_hosts, shorten_hosts
from .identity import uses_nccl
from .records import Cluster, ConnectionAttempt, HostInterface, HostRdmaPort, HostRecord, Reach

#: Engines whose containers have their own network by default; pods reach each other.
_ENGINES = ("docker", "podman")
#: Default networks of containers in Docker and Podman: 172.17.0.0/16 (the first of
#: Docker's ``default-address-pools``) and 10.88.0.0/16 (Podman's network ``podman``).
_OWN_NETWORKS = ("172.17.", "10.88.")
#: Names, ports and pairs that a finding lists.
_MOST_SHOWN = 6
#: From this share of failed tries on, the host itself is the cause.
_MOST = 0.5
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
    blocked = _blocked_pairs(reach)
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
    blocked = _blocked_pairs(reach)
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
            "addresses": sorted({bare(carrier.address) for carrier in concerned})[:_MOST_SHOWN],
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


# ports


@probe(rules.DC412)
def ports_are_open_between_hosts(cluster: Cluster | Unavailable, reach: Reach) -> Iterator[Finding]:
    """Report hosts that do not reach the ports on which the others' NCCL and gloo will listen, in both directions."""
    if reach.hosts < 2:
        return
    if not reach.tried:
        raise Unavailable("no host had an address on which another one could have tried it")
    blocked = _pairs(reach)
    if not isinstance(cluster, Unavailable):
        explained = _explained(cluster, reach, blocked)
        blocked = {pair: items for pair, items in blocked.items() if explained.isdisjoint(pair)}
    if not blocked:
        return
    yield from _blocked(blocked, reach)


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


def _explained(
    cluster: Cluster, reach: Reach, failed: Mapping[tuple[str, str], Sequence[ConnectionAttempt]]
) -> set[str]:
    """Return hosts with a problem of interface, address or container network: their ports are not the cause."""
    carriers = _carriers(cluster)
    library = "NCCL" if uses_nccl(cluster) else "gloo"
    if not cluster.launched or not failed:
        return set()
    blocked = _wholly(failed, reach)
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


# interfaces


def _pairs(reach: Reach) -> dict[tuple[str, str], list[ConnectionAttempt]]:
    """Return the failed tries by pair; a block that did not pass is no closed port."""
    found = grouped(
        (item for item in reach.failed if item.outcome != "stalled"), lambda item: (item.source, item.target)
    )
    for pair, items in list(found.items()):
        # a connection that is made and slow to answer is a busy host, unless none of them answers
        if all(_is_made(item) for item in items) and len(items) < max(reach.doors, 1):
            del found[pair]
    return dict(found)


def _is_made(item: ConnectionAttempt) -> bool:
    return item.outcome == "failed" and (item.error or "").startswith("connected")


def _blocked_pairs(reach: Reach | Unavailable) -> set[tuple[str, str]]:
    """Return hosts that reach no other host."""
    if isinstance(reach, Unavailable):
        return set()
    return _wholly(_pairs(reach), reach)


def _wholly(failed: Mapping[tuple[str, str], Sequence[ConnectionAttempt]], reach: Reach) -> set[tuple[str, str]]:
    return {pair for pair, items in failed.items() if len(items) >= max(1, reach.doors)}


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
            "addresses": sorted({bare(item.address) for item in shared})[:_MOST_SHOWN],
            "interfaces": sorted({item.interface.name for item in shared})[:_MOST_SHOWN],
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
            names if len(names) <= _MOST_SHOWN else None,
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
        then = f", and large blocks don't pass between some ({_pair_text(stalled)})"
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
            "hosts_by_mtu_bytes": {str(mtu): len(hosts) for mtu, hosts in ranked[:_MOST_SHOWN]},
            "interfaces": sorted({carriers[host].interface.name for host in few})[:_MOST_SHOWN],
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
    hosts = _minority(stalled)
    own = f" of {mtu} bytes" if mtu else ""
    return rules.DC410.found(
        f"small packets pass and large blocks do not: {_pair_text(stalled)}; something between the hosts drops packets "
        f"below their MTU{own} without a report",
        where=Where(host=compress_hosts(hosts)),
        evidence={
            "mtu_bytes": mtu,
            "stalled_connections": len(stalled),
            "pairs": [[item.source, item.target] for item in stalled[:_MOST_SHOWN]],
        },
        fix=Fix(
            "have the switches, tunnels or overlays between them pass the hosts' MTU, or lower it on all hosts. Test "
            "1500 bytes with 'ping -M do -s 1472 ADDRESS', and 9000 with 8972. Let ICMP through",
            by="admin",
            where="host",
        ),
    )


def _minority(items: Iterable[ConnectionAttempt]) -> list[str]:
    """Return the host that all failed connections share; else all that take part."""
    counts: Counter[str] = Counter()
    total = 0
    for item in items:
        total += 1
        counts.update({item.source, item.target})
    common = [host for host, count in counts.items() if count == total]
    return common if len(common) == 1 else sorted(counts)


def _pair_text(items: Sequence[ConnectionAttempt]) -> str:
    pairs = list(dict.fromkeys((item.source, item.target) for item in items))
    shown = ", ".join(f"from {source} to {target}" for source, target in pairs[:2])
    return f"{shown} and {len(pairs) - 2:,} more pairs" if len(pairs) > 2 else shown


# ports


def _blocked(blocked: Mapping[tuple[str, str], Sequence[ConnectionAttempt]], reach: Reach) -> Iterator[Finding]:
    """Return the likely hosts: those that most cannot reach, then those that reach few; then single pairs."""
    tries = max(1, len(peers_of(0, reach.hosts)))
    incoming = Counter(target for _, target in blocked)
    outgoing = Counter(source for source, _ in blocked)
    closed = {host for host, count in incoming.items() if count > tries * _MOST}
    mute = {host for host, count in outgoing.items() if count > tries * _MOST}
    if reach.hosts == 2:
        # with two hosts it can be either end: if the sender's own kernel refuses, it is the sender
        closed, mute = set(), {source for source, _ in blocked if _is_own_doing(blocked, source)}
        closed = {target for source, target in blocked if source not in mute}
    elif len(closed) * 2 > reach.hosts and len(mute) * 2 > reach.hosts:
        yield _between_all(blocked, reach, tries)
        return
    elif len(closed) * 2 > reach.hosts or len(mute) * 2 > reach.hosts:
        # most are no minority: search at the other end for hosts that reach few because most cannot be reached
        closed, mute = (set(), mute) if len(mute) < len(closed) else (closed, set())
    both = closed & mute
    for hosts, way in ((both, "both"), (closed - both, "to"), (mute - both, "from")):
        if hosts:
            yield _of_hosts(hosts, way, blocked, reach)
    rest = {pair: items for pair, items in blocked.items() if pair[1] not in closed and pair[0] not in mute}
    if rest:
        yield _of_pairs(rest, reach)


def _is_own_doing(blocked: Mapping[tuple[str, str], Sequence[ConnectionAttempt]], source: str) -> bool:
    items = [item for pair, found in blocked.items() if pair[0] == source for item in found]
    return all(item.outcome == "no-route" for item in items)


def _of_hosts(
    hosts: set[str], way: str, blocked: Mapping[tuple[str, str], Sequence[ConnectionAttempt]], reach: Reach
) -> Finding:
    concerned = {
        (source, target): items
        for (source, target), items in blocked.items()
        if (target in hosts and way != "from") or (source in hosts and way != "to")
    }
    items = [item for found in concerned.values() for item in found]
    names = shorten_hosts(hosts)
    one = len(hosts) == 1
    others = len({host for pair in concerned for host in pair} - hosts)
    other = f"{others:,} other host{'s' * (others != 1)}"
    what = {
        "both": f"{names} and the other hosts don't reach each other in either direction",
        "to": f"{other} can't connect to {names}",
        "from": f"{names} can't connect to {other}",
    }[way]
    end = "on it" if one else "on them"
    return rules.DC412.found(
        f"{what} {_on_ports(concerned, reach)}: {_outcomes(items)}",
        where=Where(host=compress_hosts(hosts)),
        evidence=_port_evidence(concerned, reach),
        fix=Fix(_opening(items, way, end, reach), by="admin", where="host"),
    )


def _of_pairs(blocked: Mapping[tuple[str, str], Sequence[ConnectionAttempt]], reach: Reach) -> Finding:
    items = [item for found in blocked.values() for item in found]
    hosts = sorted({host for pair in blocked for host in pair})
    return rules.DC412.found(
        f"connections fail {_pair_text(items)} {_on_ports(blocked, reach)}: {_outcomes(items)}",
        where=Where(host=compress_hosts(hosts)),
        evidence=_port_evidence(blocked, reach),
        fix=Fix(_opening(items, "pairs", "between them", reach), by="admin", where="host"),
    )


def _between_all(blocked: Mapping[tuple[str, str], Sequence[ConnectionAttempt]], reach: Reach, tries: int) -> Finding:
    items = [item for found in blocked.values() for item in found]
    every = len(blocked) >= reach.hosts * tries
    groups = _groups(blocked, reach)
    hosts = sorted({host for pair in blocked for host in pair})
    if groups:
        what = "the hosts fall into groups that don't reach each other: " + " | ".join(
            shorten_hosts(group) for group in groups[:3]
        )
    elif every:
        what = f"no host can connect to another ({reach.hosts:,} hosts)"
    else:
        what = f"{len(blocked):,} of {reach.hosts * tries:,} tries between {reach.hosts:,} hosts fail"
    return rules.DC412.found(
        f"{what} {_on_ports(blocked, reach)}: {_outcomes(items)}",
        where=Where(host=compress_hosts(hosts)),
        evidence=_port_evidence(blocked, reach),
        fix=Fix(_opening(items, "pairs", "between all hosts", reach), by="admin", where="host"),
    )


def _groups(blocked: Mapping[tuple[str, str], Sequence[ConnectionAttempt]], reach: Reach) -> list[list[str]]:
    """Return groups of hosts that reach each other, if every pair was tried and there are few groups."""
    hosts = sorted({host for pair in blocked for host in pair})
    if not reach.complete or len(hosts) != reach.hosts:
        return []
    left, groups = set(hosts), []
    while left:
        group, edge = set(), [min(left)]
        while edge:
            host = edge.pop()
            group.add(host)
            edge.extend(
                other
                for other in left
                if other not in group and (host, other) not in blocked and (other, host) not in blocked
            )
        left -= group
        groups.append(sorted(group))
    return groups if 1 < len(groups) <= max(2, len(hosts) // 2) else []


def _on_ports(blocked: Mapping[tuple[str, str], Sequence[ConnectionAttempt]], reach: Reach) -> str:
    """Return the ports: all that were tried, or those between which it fails."""
    ports = sorted({item.port for items in blocked.values() for item in items})
    whole = all(len(items) >= max(1, reach.doors) for items in blocked.values())
    if whole or not reach.low_port:
        return "on any port that was tried" if whole else f"on port {ports[0]}" if len(ports) == 1 else "on some ports"
    span = f"port {ports[0]}" if len(ports) == 1 else f"ports from {ports[0]} to {ports[-1]}"
    return f"on {span}, while others of {reach.low_port}-{reach.high_port} are open"


def _outcomes(items: Sequence[ConnectionAttempt]) -> str:
    counts = Counter(item.outcome for item in items)
    texts = []
    for outcome, _ in counts.most_common(2):
        error = next((item.error for item in items if item.outcome == outcome and item.error), "")
        texts.append(
            {
                "timeout": "no answer, as where a firewall drops packets or a link is down",
                "refused": "refused, as where a firewall rejects",
                "no-route": error or "no route",
            }.get(outcome, error or "they fail")
        )
    return "; ".join(texts)


def _port_evidence(blocked: Mapping[tuple[str, str], Sequence[ConnectionAttempt]], reach: Reach) -> dict[str, object]:
    items = [item for found in blocked.values() for item in found]
    ports = sorted({item.port for item in items})
    pairs = sorted(blocked)
    return {
        "failed_connections": len(items),
        "pairs": len(pairs),
        "one_way_pairs": sum((target, source) not in blocked for source, target in pairs),
        "tried_connections": reach.tried,
        "complete": reach.complete,
        "lowest_port": ports[0],
        "highest_port": ports[-1],
        "outcomes": dict(sorted(Counter(item.outcome for item in items).items())),
        "examples": [f"{item.source} -> {item.target} {item.address} {item.port}" for item in items[:_MOST_SHOWN]],
    }


def _opening(items: Sequence[ConnectionAttempt], way: str, end: str, reach: Reach) -> str:
    if all(item.outcome == "no-route" for item in items):
        address = items[0].address
        return (
            f"see on {items[0].source} which way it takes ('ip route get {address}', 'ip rule list') and have that way "
            "opened: its own kernel refuses it"
        )
    ports = f" ({reach.low_port}-{reach.high_port} was tried)" if reach.low_port else ""
    direction = {"to": f"incoming TCP {end}", "from": f"outgoing TCP {end}", "both": f"TCP {end}"}.get(
        way, f"TCP {end}"
    )
    return (
        f"have {direction} opened for all ports among the hosts of the job, since NCCL and gloo listen on ports that "
        f"the kernel chooses{ports}; or narrow net.ipv4.ip_local_port_range on all hosts to a range that is open"
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
    for ports, hosts in sorted(down.items(), key=lambda item: -len(item[1]))[:_MOST_SHOWN]:
        named = _named(name for name, _ in ports)
        yield rules.DC414.found(
            f"{named} {'is' if len(ports) == 1 else 'are'} {ports[0][1] or 'not ACTIVE'} on {shorten_hosts(hosts)} and "
            f"ACTIVE on most of {_size(peers):,} hosts with the same GPUs",
            where=Where(host=compress_hosts(hosts), object=named),
            evidence={"ports": [name for name, _ in ports][:_MOST_SHOWN], "hosts": len(hosts)},
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
    for (rate, usual), (hosts, ports) in sorted(slow.items())[:_MOST_SHOWN]:
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


def _listen(hosts: Sequence[str]) -> str:
    return "listens" if len(hosts) == 1 else "listen"
