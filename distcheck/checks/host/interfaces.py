"""The network interfaces of this host, and whether those that NCCL and gloo will take lead to the other nodes.

Which ones they take is worked out in ``nccl_interfaces.py``; RDMA devices are the matter of ``fabric.py``, names and
addresses of the master that of ``names.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity, Unavailable, Where
from distcheck.core.registry import fact, probe
from distcheck.core.world import Address, World
from distcheck.launch.model import Launch
from distcheck.launch.settings import Setting, Settings

from ._network_fixes import MOST_SHOWN, change, listed, written
from .gpus import Gpus
from .nccl_interfaces import (
    Choice,
    Chosen,
    bare,
    choose_nccl_interfaces,
    gloo_interfaces,
    is_address,
    is_loopback,
    parse_filter,
    same_subnet,
    uses_nccl,
)

#: Bit of ``/sys/class/net/*/flags``: the interface is administratively up (IFF_UP, Linux ``if.h``).
FLAG_UP = 0x1
#: Values of ``/sys/class/net/*/type`` (ARPHRD_* of Linux ``if_arp.h``).
TYPE_ETHERNET, TYPE_INFINIBAND, TYPE_LOOPBACK = 1, 32, 772
TUNNEL_TYPES = frozenset(
    {512, 768, 769, 776, 778, 823, 65534}
)  # PPP, IPIP, IP6TNL, SIT, GRE, IP6GRE, none (tun, WireGuard)
#: ``DEVTYPE`` of ``/sys/class/net/*/uevent``, as the kernel's drivers set it.
DEVICE_TYPES = {
    "bridge": "bridge",
    "bond": "bond",
    "geneve": "tunnel",
    "ppp": "tunnel",
    "vlan": "ethernet",
    "vxlan": "tunnel",
    "wireguard": "tunnel",
    "wlan": "ethernet",
}
#: States that the kernel calls RUNNING (``netif_oper_up``, Linux 6.18).
RUNNING_STATES = frozenset({"up", "unknown"})
#: Flags of a route (Linux ``route.h``): in use, and a route that rejects what it gets.
ROUTE_UP, ROUTE_REJECT = 0x1, 0x200

#: Beginnings of the names of interfaces that lead to containers and virtual machines of one host. NCCL itself leaves
#: out only docker and virbr (NCCL 2.30); the others stand in its issues (NVIDIA/nccl#913).
HOST_ONLY_NAMES = ("docker", "virbr", "veth", "br-", "cni", "cali", "cilium", "flannel", "lxc", "podman")
#: Beginnings of the names that VPNs and tunnels give to their interfaces.
VPN_NAMES = ("tun", "tap", "wg", "tailscale", "zt", "CloudflareWARP")
#: What real network cards, bonds and the only interface of a pod are called; such a name is never taken for virtual.
PHYSICAL_NAMES = ("eth", "en", "ib", "bond", "wl", "hsn", "rdma")


class Interface(NamedTuple):
    """One network interface. None: the system does not tell."""

    name: str
    #: IPv4 and IPv6 addresses in order, with their netmasks (``10.0.0.5/255.255.255.0``, ``fe80::1%eth0/64``)
    addresses: tuple[str, ...] = ()
    up: bool | None = None
    #: it has a carrier, and the kernel calls it running
    running: bool | None = None
    loopback: bool = False
    #: ``ethernet``, ``infiniband``, ``bridge``, ``veth``, ``tunnel``, ``bond``, ``loopback`` or ``other``
    kind: str = "other"
    speed_mbit_per_s: int | None = None
    mtu_bytes: int | None = None


class Interfaces(NamedTuple):
    """All interfaces of this host, in getifaddrs' order."""

    interfaces: tuple[Interface, ...]
    #: the interface of the default route; None without one
    default_route: str | None = None
    ipv6_disabled: bool | None = None

    def named(self, name: str) -> Interface | None:
        """The interface of exactly this name."""
        return next((item for item in self.interfaces if item.name == name), None)

    def own_addresses(self) -> frozenset[str]:
        """All addresses of this host, loopback among them, without netmasks and zones."""
        return frozenset(bare(address) for item in self.interfaces for address in item.addresses)


@fact()
def read_interfaces(world: World) -> Interfaces:
    """From netifaces and /sys/class/net on Linux, elsewhere from netifaces and psutil."""
    addresses: dict[str, list[str]] = {}
    for address in world.addresses():
        addresses.setdefault(address.interface, []).append(_with_mask(address))
    if world.platform != "linux":
        return Interfaces(tuple(_elsewhere(world, addresses)))
    try:
        present = world.list_folder("/sys/class/net")
    except OSError:
        present = ()
    numbered = []
    for name in dict.fromkeys((*addresses, *present)):
        device = name.partition(":")[0]  # the label of an address (eth0:1) is a name of its own to getifaddrs
        if device in present:
            if device == name and not _is_interface(world, device):
                continue
            number, interface = _read_interface(world, device)
            numbered.append((number, interface._replace(name=name, addresses=tuple(addresses.get(name, ())))))
        else:
            found = tuple(addresses[name])
            loopback = all(is_loopback(address) for address in found)
            numbered.append(
                (len(numbered), Interface(name, found, loopback=loopback, kind="loopback" if loopback else "other"))
            )
    numbered.sort(key=lambda pair: pair[0])
    return Interfaces(tuple(interface for _, interface in numbered), _default_route(world), _ipv6_disabled(world))


@probe(rules.DC406)
def nccl_interfaces_lead_to_the_nodes(
    launch: Launch, settings: Settings, interfaces: Interfaces, gpus: Gpus | Unavailable
) -> Iterator[Finding]:
    """NCCL finds a running interface, and the one that it takes first is no bridge, no loopback and no VPN."""
    named = settings.of("NCCL_SOCKET_IFNAME")
    if launch.backend is not None and not uses_nccl(launch, gpus):
        return
    choice = choose_nccl_interfaces(
        interfaces,
        ifname=None if named is None else named.value,
        family=settings.get("NCCL_SOCKET_FAMILY"),
        comm_id=settings.get("NCCL_COMM_ID"),
    )
    nccl = launch.launched and uses_nccl(launch, gpus)
    way = _way_to_the_nodes(interfaces, _master_address(launch))
    first = choice.first
    if first is None:
        if named is not None and len(named.value) > 1:
            yield _names_nothing(named, interfaces, way, nccl=nccl)
        elif nccl:
            yield _nothing_runs(interfaces, settings.get("NCCL_SOCKET_FAMILY"))
        return
    if not nccl or not launch.several_nodes:
        return
    asked = choice.by == "named" and named is not None and not parse_filter(named.value).exclude
    trouble = _trouble(first, interfaces, _master_address(launch), asked=asked)
    if trouble is not None:
        yield rules.DC406.found(
            f"NCCL takes {first.name} ({bare(first.address)}){_because(choice, named)}, {trouble}",
            where=Where(variable="NCCL_SOCKET_IFNAME", object=first.name),
            evidence=_evidence(choice, named, interfaces),
            fix=_name_exactly(way, named),
        )
    elif named is not None and (more := _more_than_named(named.value, choice)):
        yield _prefix_matches_more(named, choice, more, interfaces)
    elif choice.by == "any" and (
        strangers := [item.name for item in choice.interfaces[1:] if _virtual(item.name, interfaces)]
    ):
        yield rules.DC406.found(
            f"without RDMA, NCCL spreads its connections over {listed(choice.names)}, "
            f"of which {listed(strangers)} {'stays' if len(strangers) == 1 else 'stay'} on this host or in a VPN",
            severity=Severity.INFO,
            where=Where(variable="NCCL_SOCKET_IFNAME", object=first.name),
            evidence=_evidence(choice, named, interfaces),
            fix=_name_exactly(way or first.name, named),
        )


@probe(rules.DC407)
def gloo_interface_can_be_used(launch: Launch, settings: Settings, interfaces: Interfaces) -> Iterator[Finding]:
    """Every name in GLOO_SOCKET_IFNAME is an interface of this host that has an address."""
    setting = settings.of("GLOO_SOCKET_IFNAME")
    if setting is None or not setting.value:
        return
    choice = gloo_interfaces(interfaces, ifname=setting.value)
    # with the backend stated as nccl alone, gloo starts only where the program makes a group of its own for it
    starts = launch.launched and (launch.backend is None or "gloo" in launch.backend)
    trouble = None
    if choice.missing:
        trouble = "; ".join(_why_missing(name, setting.value, interfaces) for name in choice.missing)
    elif launch.several_nodes and (cut_off := [item for item in choice.interfaces if _cut_off(item, interfaces)]):
        trouble = "; ".join(
            f"{item.name} is {'loopback, which no other node reaches' if is_loopback(item.address) else 'down'}"
            for item in cut_off
        )
    if trouble is None:
        return
    way = _way_to_the_nodes(interfaces, _master_address(launch))
    yield rules.DC407.found(
        f"gloo can't use {written(setting)}: {trouble}",
        severity=None if starts else Severity.INFO,
        where=Where(variable="GLOO_SOCKET_IFNAME"),
        evidence={
            "value": setting.value,
            "missing": list(choice.missing),
            "interfaces_with_address": [item.name for item in interfaces.interfaces if item.addresses],
        },
        fix=change(
            setting,
            "give one interface by its exact name, the one that leads to the other nodes, or leave the variable out: "
            "gloo then takes the interface of the host name; where nodes name their interfaces differently, set it on "
            f"each node for itself{_show_how(way)}",
            None if way is None else f"export GLOO_SOCKET_IFNAME={way}",
        ),
    )


# reading


def _read_interface(world: World, name: str) -> tuple[int, Interface]:
    """One interface from /sys/class/net, without its addresses, and its index."""
    folder = f"/sys/class/net/{name}"
    try:
        parts = frozenset(world.list_folder(folder))
    except OSError:
        parts = frozenset()
    number = _number(world, f"{folder}/ifindex")
    hardware = _number(world, f"{folder}/type")
    flags = _text(world, f"{folder}/flags")
    state = _text(world, f"{folder}/operstate")
    kind = _kind(world, folder, parts, hardware, number)
    # a link that is down and one without hardware have no speed: reading it gives an error or -1
    speed = _number(world, f"{folder}/speed") if "device" in parts or kind == "bond" else None
    return number or 0, Interface(
        name,
        up=None if flags is None else bool(int(flags, 16) & FLAG_UP),
        running=None if state is None else state in RUNNING_STATES,
        loopback=hardware == TYPE_LOOPBACK,
        kind=kind,
        speed_mbit_per_s=speed if speed is not None and speed > 0 else None,
        mtu_bytes=_number(world, f"{folder}/mtu"),
    )


def _kind(world: World, folder: str, parts: frozenset[str], hardware: int | None, number: int | None) -> str:
    if hardware == TYPE_LOOPBACK:
        return "loopback"
    if hardware == TYPE_INFINIBAND:
        return "infiniband"
    if "tun_flags" in parts or hardware in TUNNEL_TYPES:
        return "tunnel"
    if "bonding" in parts:
        return "bond"
    if "bridge" in parts:
        return "bridge"
    for line in (_text(world, f"{folder}/uevent") or "").splitlines():
        key, _, value = line.partition("=")
        if key == "DEVTYPE":
            return DEVICE_TYPES.get(value, "other")
    if hardware != TYPE_ETHERNET:
        return "other"
    if "device" in parts:
        return "ethernet"
    # a veth has no mark of its own, but its link is another interface: its peer
    return "veth" if _number(world, f"{folder}/iflink") != number else "other"


def _is_interface(world: World, name: str) -> bool:
    """/sys/class/net also holds files, such as ``bonding_masters``."""
    return world.exists(f"/sys/class/net/{name}/ifindex")


def _elsewhere(world: World, addresses: dict[str, list[str]]) -> Iterator[Interface]:
    """Interfaces on macOS and Windows: psutil knows which are up, where it is installed."""
    states = {}
    if world.root == "/":  # psutil asks the system itself, so it can't speak for a recorded machine
        try:
            import psutil
        except ImportError:
            pass
        else:
            states = psutil.net_if_stats()
    for name in dict.fromkeys((*addresses, *states)):
        found = tuple(addresses.get(name, ()))
        loopback = bool(found) and all(is_loopback(address) or bare(address).startswith("fe80") for address in found)
        state = states.get(name)
        yield Interface(
            name,
            found,
            up=None if state is None else state.isup,
            running=None if state is None else state.isup,
            loopback=loopback,
            kind="loopback" if loopback else "other",
            speed_mbit_per_s=state.speed or None if state is not None else None,
            mtu_bytes=state.mtu or None if state is not None else None,
        )


def _with_mask(address: Address) -> str:
    mask = address.netmask
    if not mask:
        return address.address
    if address.family == "ipv6":
        _, slash, length = mask.partition("/")
        mask = length if slash else str(sum(bin(int(part, 16)).count("1") for part in mask.split(":") if part))
    return f"{address.address}/{mask}"


def _default_route(world: World) -> str | None:
    """The interface of the default route with the lowest metric; IPv4 before IPv6."""
    routes = []
    for line in (_text(world, "/proc/net/route") or "").splitlines()[1:]:
        fields = line.split()
        if len(fields) >= 8 and fields[1] == fields[7] == "00000000" and int(fields[3], 16) & ROUTE_UP:
            routes.append((int(fields[6]), fields[0]))
    if routes:
        return min(routes)[1]
    for line in (_text(world, "/proc/net/ipv6_route") or "").splitlines():
        fields = line.split()
        if len(fields) >= 10 and fields[0] == "0" * 32 and fields[1] == "00":
            flags = int(fields[8], 16)
            if flags & ROUTE_UP and not flags & ROUTE_REJECT:
                routes.append((int(fields[5], 16), fields[9]))
    return min(routes)[1] if routes else None


def _ipv6_disabled(world: World) -> bool | None:
    """As /proc/sys says; a kernel that has IPv4 settings but none of IPv6 was started without it."""
    text = _text(world, "/proc/sys/net/ipv6/conf/all/disable_ipv6")
    if text is not None:
        return text != "0"
    return True if world.exists("/proc/sys/net/ipv4") and not world.exists("/proc/sys/net/ipv6") else None


def _text(world: World, path: str) -> str | None:
    try:
        return world.read_text(path).strip()
    except OSError:
        return None


def _number(world: World, path: str) -> int | None:
    text = _text(world, path)
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


# judging


def _names_nothing(named: Setting, interfaces: Interfaces, way: str | None, *, nccl: bool) -> Finding:
    """NCCL_SOCKET_IFNAME leaves NCCL without any interface."""
    wanted = parse_filter(named.value)
    if wanted.exclude:
        trouble = f"leaves out every running interface of this host ({listed(_running_names(interfaces))})"
    else:
        reasons = []
        for entry, _ in wanted.entries:
            near = [item for item in interfaces.interfaces if item.name.startswith(entry)]
            if wanted.exact:
                near = [item for item in near if item.name == entry]
            reasons.append(_why_not(entry, near))
        trouble = f"gives NCCL no interface: {'; '.join(reasons)}; running here: {listed(_running_names(interfaces))}"
    return rules.DC406.found(
        f"{written(named)} {trouble}",
        severity=Severity.ERROR if nccl else Severity.INFO,
        where=Where(variable="NCCL_SOCKET_IFNAME"),
        evidence={
            "value": named.value,
            "interfaces": [item.name for item in interfaces.interfaces],
            "running": _running_names(interfaces),
        },
        fix=_name_exactly(way, named),
    )


def _nothing_runs(interfaces: Interfaces, family: str | None) -> Finding:
    """Without NCCL_SOCKET_IFNAME, too, NCCL finds no interface."""
    of_family = f" with an address of NCCL_SOCKET_FAMILY={family}" if family in ("AF_INET", "AF_INET6") else ""
    return rules.DC406.found(
        f"this host has no running network interface{of_family} that NCCL could take",
        severity=Severity.ERROR,
        where=Where(variable="NCCL_SOCKET_FAMILY" if of_family else "NCCL_SOCKET_IFNAME"),
        evidence={"interfaces": [item.name for item in interfaces.interfaces], "running": _running_names(interfaces)},
        fix=Fix(
            "leave NCCL_SOCKET_FAMILY out of the job script"
            if of_family
            else "have an administrator bring the network up",
            by="user" if of_family else "admin",
            where="job-script" if of_family else "host",
        ),
    )


def _prefix_matches_more(named: Setting, choice: Choice, more: tuple[str, ...], interfaces: Interfaces) -> Finding:
    """NCCL_SOCKET_IFNAME names an interface that is there, and others begin with the same letters."""
    first = choice.interfaces[0]
    entries = [entry for entry, _ in parse_filter(named.value).entries]
    apart = not any(
        same_subnet(entry, other.address)
        for other in choice.interfaces
        if other.name in entries
        for entry in _addresses(interfaces, first.name)
    )
    wrong = first.name not in entries and apart
    return rules.DC406.found(
        f"{written(named)} is a prefix for NCCL: it matches {listed(more)} as well, and NCCL takes {first.name} first",
        severity=Severity.WARNING if wrong else Severity.INFO,
        where=Where(variable="NCCL_SOCKET_IFNAME", object=first.name),
        evidence=_evidence(choice, named, interfaces),
        fix=_name_exactly(next(name for name in entries if name in choice.names), named),
    )


def _trouble(first: Chosen, interfaces: Interfaces, master: str | None, *, asked: bool) -> str | None:
    """Why the other nodes can't be reached from this interface; None where they can, as far as facts tell."""
    item = interfaces.named(first.name)
    if is_loopback(first.address) or (item is not None and item.loopback):
        return "the loopback interface, which leads to no other node"
    if master is not None and any(same_subnet(entry, master) for entry in _addresses(interfaces, first.name)):
        return None
    if first.link_local:
        return "whose only address is an IPv6 link-local one, which other nodes can't connect to"
    if first.name.startswith(HOST_ONLY_NAMES):
        return "an interface that leads to containers or virtual machines of this host only"
    # a job over a VPN is possible, and who names its interface means it
    if not asked and _virtual(first.name, interfaces):
        return "an interface of a VPN or a tunnel"
    return None


def _virtual(name: str, interfaces: Interfaces) -> bool:
    """By its name, or by its kind: whether an interface stays on this host or belongs to a VPN."""
    item = interfaces.named(name)
    if name.startswith((*HOST_ONLY_NAMES, *VPN_NAMES)):
        return True
    return item is not None and item.kind == "tunnel" and not name.startswith(PHYSICAL_NAMES)


def _way_to_the_nodes(interfaces: Interfaces, master: str | None) -> str | None:
    """The interface to recommend: in the master's subnet, else of the default route, else the only one that is left."""
    usable = [
        item
        for item in interfaces.interfaces
        if item.addresses and item.running is not False and not item.loopback and not _virtual(item.name, interfaces)
        if not all(Chosen(item.name, entry).link_local for entry in item.addresses)
    ]
    for item in usable:
        if master is not None and any(same_subnet(entry, master) for entry in item.addresses):
            return item.name
    if any(item.name == interfaces.default_route for item in usable):
        return interfaces.default_route
    return usable[0].name if len(usable) == 1 else None


def _master_address(launch: Launch) -> str | None:
    """The master's address, where the launch gives one. A name would have to be resolved, which may take seconds."""
    host = launch.master_addr or (launch.rdzv_endpoint or "").rpartition(":")[0]
    host = host.strip("[]")
    return host if is_address(host) and not is_loopback(host) else None


def _more_than_named(value: str, choice: Choice) -> tuple[str, ...]:
    """What a prefix matches besides interfaces that are named in full; empty where nothing is named in full."""
    wanted = parse_filter(value)
    if wanted.exclude or wanted.exact:
        return ()
    entries = [entry for entry, _ in wanted.entries]
    if not any(entry in choice.names for entry in entries):
        return ()
    # an entry that is nobody's name is a prefix on purpose: what it matches is no surprise
    on_purpose = tuple(entry for entry in entries if entry not in choice.names)
    return tuple(
        name for name in choice.names if name not in entries and not (on_purpose and name.startswith(on_purpose))
    )


def _why_not(entry: str, near: list[Interface]) -> str:
    """Why an entry of NCCL_SOCKET_IFNAME matches nothing that runs."""
    if not near:
        blank = ", since NCCL keeps the blank" if entry != entry.strip() else ""
        return f"{entry!r} is not there{blank}"
    states = []
    for item in near[:MOST_SHOWN]:
        if item.up is False:
            states.append(f"{item.name} is down")
        elif item.running is False:
            states.append(f"{item.name} has no carrier")
        else:
            states.append(f"{item.name} has no address that NCCL takes")
    return ", ".join(states)


def _why_missing(name: str, value: str, interfaces: Interfaces) -> str:
    """Why gloo finds no address for a name."""
    if name.startswith(("^", "=")) or value.startswith(("^", "=")):
        return f"{name!r} is the syntax of NCCL_SOCKET_IFNAME; gloo takes exact names only"
    item = interfaces.named(name)
    if item is not None:
        return f"{name} has no address"
    if interfaces.named(name.strip()) is not None:
        return f"{name!r} is written with a blank, which gloo takes for a part of the name"
    if name in interfaces.own_addresses():
        return f"{name} is an address; gloo takes the name of an interface"
    return f"{name!r} is no interface of this host"


def _cut_off(item: Chosen, interfaces: Interfaces) -> bool:
    found = interfaces.named(item.name)
    return is_loopback(item.address) or (found is not None and found.running is False)


def _name_exactly(way: str | None, named: Setting | None) -> Fix:
    """Set NCCL_SOCKET_IFNAME to one exact name, where all ranks get it."""
    text = (
        f"{'set' if named is None else 'replace it by'} the exact name of the interface that leads to the other nodes; "
        "the second = belongs to the value and means 'this name, no prefix'; where nodes name their interfaces "
        "differently, join all the names by commas without blanks"
    )
    if way is None:
        text += ": NCCL_SOCKET_IFNAME==NAME ('ip route get ADDRESS-OF-ANOTHER-NODE' shows NAME)"
    else:
        text += f": NCCL_SOCKET_IFNAME=={way}"
    return change(named, text, None if way is None else f"export NCCL_SOCKET_IFNAME=={way}")


def _show_how(way: str | None) -> str:
    return " ('ip route get ADDRESS-OF-ANOTHER-NODE' shows it)" if way is None else f": GLOO_SOCKET_IFNAME={way}"


def _because(choice: Choice, named: Setting | None) -> str:
    if named is not None and choice.by == "named":
        return f" for {written(named)}"
    return " by itself"


def _evidence(choice: Choice, named: Setting | None, interfaces: Interfaces) -> dict[str, object]:
    return {
        "value": None if named is None else named.value,
        "chosen": [f"{item.name} {item.address}" for item in choice.interfaces],
        "chosen_by": choice.by,
        "default_route": interfaces.default_route,
    }


def _addresses(interfaces: Interfaces, name: str) -> tuple[str, ...]:
    item = interfaces.named(name)
    return () if item is None else item.addresses


def _running_names(interfaces: Interfaces) -> list[str]:
    return [item.name for item in interfaces.interfaces if item.running is not False and item.addresses]
