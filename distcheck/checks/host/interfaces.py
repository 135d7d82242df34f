"""The network interfaces of this host, and whether those that NCCL and gloo will take lead to the other nodes.

Which ones they take is worked out in ``nccl_interfaces.py``; RDMA devices are the matter of ``fabric.py``, names and
addresses of the master that of ``names.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from distcheck.core.model import grouped_pairs
from distcheck.core.registry import fact
from distcheck.core.world import Address, World

from .addresses import bare, is_loopback

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
    """One network interface. None: unknown to the system."""

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
    addresses = grouped_pairs((address.interface, _with_mask(address)) for address in world.addresses())
    if world.platform != "linux":
        return Interfaces(tuple(_elsewhere(world, addresses)))
    present = world.names_or_empty("/sys/class/net")
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


# reading


def _read_interface(world: World, name: str) -> tuple[int, Interface]:
    """One interface from /sys/class/net, without its addresses, and its index."""
    folder = f"/sys/class/net/{name}"
    parts = frozenset(world.names_or_empty(folder))
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
    for line in world.text_or_empty(f"{folder}/uevent").splitlines():
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
    if world.root == "/":  # psutil reads the running system, so it can't be used for a recorded machine
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
    for line in world.text_or_empty("/proc/net/route").splitlines()[1:]:
        fields = line.split()
        if len(fields) >= 8 and fields[1] == fields[7] == "00000000" and int(fields[3], 16) & ROUTE_UP:
            routes.append((int(fields[6]), fields[0]))
    if routes:
        return min(routes)[1]
    for line in world.text_or_empty("/proc/net/ipv6_route").splitlines():
        fields = line.split()
        if len(fields) >= 10 and fields[0] == "0" * 32 and fields[1] == "00":
            flags = int(fields[8], 16)
            if flags & ROUTE_UP and not flags & ROUTE_REJECT:
                routes.append((int(fields[5], 16), fields[9]))
    return min(routes)[1] if routes else None


def _ipv6_disabled(world: World) -> bool | None:
    """Return what /proc/sys shows; a kernel that has IPv4 settings but none of IPv6 was started without it."""
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
