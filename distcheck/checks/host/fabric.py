"""RDMA devices (InfiniBand, RoCE, EFA), NVLink between hosts, GPUDirect, and what NCCL needs to use them.

Files and names only: no device is set up, no library is loaded. IP interfaces are the matter of ``interfaces.py``,
clouds' own plug-ins that of ``cloud_networks.py``, the NVLink and NVSwitch of one host that of ``gpus.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity, Unavailable, Where
from distcheck.core.registry import fact, probe
from distcheck.core.world import World
from distcheck.launch.model import Launch
from distcheck.launch.settings import Setting, Settings
from distcheck.launch.values import c_integer
from distcheck.rules import shared_fixes

from ._loader import search
from ._network_fixes import change, leave_out, let_rdma_in, listed, written
from .gpus import Gpus
from .nccl_interfaces import MOST_DEVICES, NameFilter, parse_filter, uses_nccl
from .platform import Platform
from .software import Software, Version, version_numbers

#: Entries of a GID table that are read, unless NCCL_IB_GID_INDEX is higher; tables have up to 256, mostly empty.
MOST_GIDS = 32
#: So many empty entries in a row end the reading of a table before that.
EMPTY_GIDS_AT_END = 8
#: ``vendor`` of Amazon's PCI devices.
AMAZON = "0x1d0f"
#: From this rate on an Ethernet port is taken for one that may carry RDMA between GPUs, in Gbit/s.
FAST_GBIT_PER_S = 100.0
#: First kernel with dma-buf for RDMA (``ib_umem_dmabuf_get``, Linux 5.12); Red Hat's 4.18 has it since RHEL 8.6.
DMA_BUF_KERNEL = (5, 12)
#: First NCCL that finds a RoCE GID by itself (NCCL 2.21 release notes: NCCL_IB_GID_INDEX defaults to -1).
GID_BY_ITSELF = (2, 21)
#: GPUs that can multicast over NVSwitch (NVLink SHARP): Hopper and newer.
NVLS_ARCHITECTURE = 9.0
#: GPUs for which NVIDIA offers no GPUDirect RDMA: cards for players, and those that share the host's memory.
NO_GPUDIRECT = ("GeForce", "GB10", "Orin", "Thor")
#: GPUs whose NVLink leaves the host; NVIDIA's names for them.
NVLINK_RACKS = ("GB200", "GB300")
#: So many cards of one kind, of which most are up, make a port that is down remarkable.
LEAST_PEERS = 3

#: Marks of the kernel modules through which network cards reach GPU memory (NVIDIA/nccl 2.30, ``net_ib/gdr.cc``).
PEER_MEMORY_MARKS = {
    "nvidia_peermem": "/sys/module/nvidia_peermem/version",
    "nv_mem": "/sys/kernel/mm/memory_peers/nv_mem/version",
    "nv_mem_nc": "/sys/kernel/mm/memory_peers/nv_mem_nc/version",
}
#: Where clouds install NCCL's network plug-ins, outside of the loader's folders.
PLUGIN_FOLDERS = (
    "/opt/amazon/ofi-nccl/lib",
    "/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu",
    "/opt/amazon/ofi-nccl/lib64",
    "/opt/aws-ofi-nccl/lib",
    "/var/lib/tcpxo/lib64",
    "/var/lib/tcpx/lib64",
    "/var/lib/fastrak/lib64",
    "/usr/local/tcpx/lib64",
    "/usr/local/fastrak/lib64",
    "/usr/local/gib/lib64",
)
#: Amazon's folder of libfabric; the plug-in searches it by itself.
LIBFABRIC_FOLDERS = ("/opt/amazon/efa/lib", "/opt/amazon/efa/lib64")


class Gid(NamedTuple):
    """One entry of a port's GID table."""

    index: int  # type: ignore[assignment]  # hides a tuple's method that no caller needs
    gid: str
    #: ``IB/RoCE v1`` or ``RoCE v2``
    type: str = ""
    interface: str = ""

    @property
    def link_local(self) -> bool:
        """Valid on one link only."""
        return self.gid.lower().startswith("fe80:")

    @property
    def routable_v2(self) -> bool:
        """What RoCE between hosts needs: version 2, with the address of an interface."""
        return self.type == "RoCE v2" and not self.link_local


class RdmaPort(NamedTuple):
    """One port of an RDMA device."""

    device: str
    port: int
    #: ``ACTIVE``, ``DOWN``, ``INIT``, ``ARMED``; "" where it can't be read
    state: str
    physical_state: str = ""
    #: ``InfiniBand`` or ``Ethernet``
    link_layer: str = ""
    rate_gbit_per_s: float | None = None
    #: entries that are not zero
    gids: tuple[Gid, ...] = ()
    #: network interfaces of the same PCI device
    interfaces: tuple[str, ...] = ()
    #: an EFA device of AWS
    efa: bool = False
    #: errors since the driver was loaded, read only where the port is not ACTIVE
    counters: tuple[tuple[str, int], ...] = ()
    #: PCI address of the function, such as ``0000:1a:00.0``; functions of one card differ in the last digit
    pci: str = ""
    #: the card's type, such as ``MT4129``
    card_type: str = ""

    @property
    def name(self) -> str:
        """As NCCL writes it: ``mlx5_0:1``."""
        return f"{self.device}:{self.port}"

    @property
    def card(self) -> str:
        """What all ports of one card have in common."""
        return self.pci.rpartition(".")[0] or self.device

    @property
    def usable(self) -> bool:
        """NCCL's own transport can take it: ACTIVE, and neither EFA nor Omni-Path, which need a plug-in."""
        if self.efa or self.device.startswith(("hfi1", "opa")):
            return False
        return self.state == "ACTIVE" and self.link_layer in ("InfiniBand", "Ethernet")


class Fabric(NamedTuple):
    """The RDMA side of this host. ``ports`` is empty where there is no device."""

    ports: tuple[RdmaPort, ...] = ()
    #: /dev/infiniband/uverbs* can be opened by this process; None without devices
    verbs_usable: bool | None = None
    libibverbs: str | None = None
    peer_memory_module: str | None = None
    #: kernel and driver let NICs access GPU memory through dma-buf; None: unknown
    dma_buf: bool | None = None
    libfabric: str | None = None
    #: network plug-ins of NCCL that the loader would find
    net_plugins: tuple[str, ...] = ()
    #: channels of NVIDIA's IMEX that this process can see; None outside Linux
    imex_channels: int | None = None
    #: network plug-ins in folders of clouds that the loader does not search
    other_plugins: tuple[str, ...] = ()
    #: the file that NCCL_TOPO_FILE names is there; None where none is named
    topology_file_found: bool | None = None


@fact()
def read_fabric(world: World, settings: Settings) -> Fabric:
    """From /sys/class/infiniband, /dev/infiniband and the loader's folders."""
    if world.platform != "linux":
        raise Unavailable(f"{world.platform} does not list RDMA devices as Linux does")
    if not world.exists("/sys/class"):
        raise Unavailable("/sys is not mounted")
    devices = _names(world, "/sys/class/infiniband")
    index = number_of(settings, "NCCL_IB_GID_INDEX") or 0
    plugins = _plugin_names(settings.get("NCCL_NET_PLUGIN"))
    topology = settings.get("NCCL_TOPO_FILE")
    return Fabric(
        ports=tuple(port for device in devices for port in _read_device(world, device, index)),
        verbs_usable=_can_open_verbs(world) if devices else None,
        libibverbs=_library(world, "libibverbs.so.1"),
        peer_memory_module=next((name for name, mark in PEER_MEMORY_MARKS.items() if world.exists(mark)), None),
        dma_buf=_dma_buf(world),
        libfabric=_library(world, "libfabric.so.1", LIBFABRIC_FOLDERS),
        net_plugins=tuple(path for name in plugins if (path := _library(world, name)) is not None),
        imex_channels=len(world.names_or_empty("/dev/nvidia-caps-imex-channels")),
        other_plugins=tuple(
            f"{folder}/{name}" for folder in PLUGIN_FOLDERS for name in plugins if world.exists(f"{folder}/{name}")
        ),
        topology_file_found=None if topology is None else world.exists(topology),
    )


@probe(rules.DC413)
def active_ports_are_used(
    launch: Launch, settings: Settings, fabric: Fabric, gpus: Gpus | Unavailable, platform: Platform | Unavailable
) -> Iterator[Finding]:
    """Where InfiniBand or RoCE ports are ACTIVE, a job on several nodes can use them."""
    ports = _data_ports(fabric)
    # a variable that disables them is DC114: one cause, one finding
    if not between_nodes(launch, gpus) or _switched_off(settings) is not None:
        return
    if not ports:
        _insist_on_states(fabric.ports)
        return
    severity = Severity.WARNING if _carry_gpu_traffic(ports, gpus) else Severity.INFO
    active = f"{listed(port.name for port in ports)} {'is' if len(ports) == 1 else 'are'} ACTIVE"
    evidence = {
        "active_ports": [port.name for port in ports],
        "verbs_usable": fabric.verbs_usable,
        "libibverbs": fabric.libibverbs,
    }
    if fabric.verbs_usable is False:
        yield rules.DC413.found(
            f"{active}, but this process can't open /dev/infiniband/uverbs*, so NCCL falls back to TCP",
            severity=severity,
            where=Where(object="/dev/infiniband"),
            evidence=evidence,
            fix=let_rdma_in(platform),
        )
    if fabric.libibverbs is None:
        yield rules.DC413.found(
            f"{active}, but the loader finds no libibverbs.so.1, so NCCL falls back to TCP",
            severity=severity,
            where=Where(object="libibverbs.so.1"),
            evidence=evidence,
            fix=_install_verbs(platform),
        )
    wanted = settings.of("NCCL_IB_HCA")
    names = _device_filter(settings)
    if wanted is None or not names.entries or any(_takes(names, port) for port in fabric.ports if port.usable):
        return
    yield rules.DC413.found(
        f"{written(wanted)} {'excludes every' if names.exclude else 'matches no'} ACTIVE port of this host, so NCCL "
        f"falls back to TCP although {active}",
        severity=severity if wanted.by_user and not names.exclude else Severity.INFO,
        where=Where(variable="NCCL_IB_HCA"),
        evidence={**evidence, "value": wanted.value},
        fix=change(
            wanted,
            "name the devices of this host, joined by commas without blanks, or omit the variable; where nodes "
            "name their devices differently, give all the names",
            "export NCCL_IB_HCA==" + ",".join(dict.fromkeys(port.device for port in ports)),
        ),
    )


@probe(rules.DC414)
def wanted_ports_are_up(
    launch: Launch, settings: Settings, fabric: Fabric, gpus: Gpus | Unavailable
) -> Iterator[Finding]:
    """A port that NCCL_IB_HCA names, or whose peers on this host are up, is ACTIVE."""
    by_card: dict[str, list[RdmaPort]] = {}
    unread: list[RdmaPort] = []
    for port in fabric.ports:
        by_card.setdefault(port.card, []).append(port)
    for port in fabric.ports:
        # where the other port of a card is up, one cable in a card with two ports is how it was meant
        if port.efa or any(other.state == "ACTIVE" for other in by_card[port.card]):
            continue
        wanted = _device_filter(settings)
        named = _names_port(wanted, port)
        peers = [
            other
            for other in fabric.ports
            if (other.link_layer, other.card_type) == (port.link_layer, port.card_type)
            and len(by_card[other.card]) == 1
        ]
        active = sum(other.state == "ACTIVE" for other in peers)
        alone = port in peers and len(peers) >= LEAST_PEERS and active * 2 > len(peers)
        if not named and not alone:
            unread.append(port)
            continue
        why = "NCCL_IB_HCA names it" if named else f"{active} of {len(peers)} like it are"
        # a port that was disabled on purpose reports that
        meant = port.physical_state == "Disabled" and not named
        yield rules.DC414.found(
            f"{port.name} is {port.state} (link: {port.physical_state or 'unknown'}), not ACTIVE, although {why}"
            if port.state
            else f"the state of {port.name} can't be read; {why}{'' if named else ' ACTIVE'}",
            # devices that the job excludes do not slow it down
            severity=Severity.WARNING
            if between_nodes(launch, gpus) and _takes(wanted, port) and not meant
            else Severity.INFO,
            where=Where(object=port.name),
            evidence={
                "state": port.state,
                "physical_state": port.physical_state,
                "link_layer": port.link_layer,
                "active_peers": active,
                "peers": len(peers),
                **dict(port.counters),
            },
            fix=Fix(_raise_port(port), by="admin", where="host"),
        )
    _insist_on_states(unread)


@probe(rules.DC415)
def roce_gid_can_be_used(
    launch: Launch, settings: Settings, fabric: Fabric, gpus: Gpus | Unavailable, software: Software | Unavailable
) -> Iterator[Finding]:
    """NCCL_IB_GID_INDEX names a GID of RoCE version 2 with an address, on every port that NCCL takes."""
    if not between_nodes(launch, gpus) or _switched_off(settings) is not None:
        return
    wanted = _device_filter(settings)
    ports = [port for port in fabric.ports if port.usable and _takes(wanted, port)]
    if not ports:
        _insist_on_states(fabric.ports)
    if not ports or any(port.link_layer == "InfiniBand" for port in ports):
        return
    version = _nccl_version(software)
    setting = settings.of("NCCL_IB_GID_INDEX")
    index = number_of(settings, "NCCL_IB_GID_INDEX")
    if setting is not None and index is not None and index >= 0:
        text, severity = f"{written(setting)} names a GID that does not lead to other hosts", Severity.WARNING
    elif version is not None and version < GID_BY_ITSELF:
        # on one switch without routing such a GID works, so a default is only worth knowing
        index, text, severity = 0, f"NCCL {_dotted(version)} takes GID 0 of each RoCE port by itself", Severity.INFO
    else:
        return
    problems = [(port, problem) for port in ports if (problem := _gid_problem(port, index)) is not None]
    if not problems:
        return
    yield rules.DC415.found(
        f"{text}: {listed(f'GID {index} of {port.name} {problem}' for port, problem in problems)}",
        severity=severity,
        where=Where(variable="NCCL_IB_GID_INDEX"),
        evidence={
            "index": index,
            "ports": [port.name for port, _ in problems],
            "nccl": None if version is None else _dotted(version),
            "usable_indices": {port.name: [gid.index for gid in port.gids if gid.routable_v2] for port in ports},
        },
        fix=_better_gid(setting, ports, by_itself=version is None or version >= GID_BY_ITSELF),
    )


@probe(rules.DC416)
def gpu_memory_is_reached_directly(
    launch: Launch, settings: Settings, fabric: Fabric, gpus: Gpus | Unavailable
) -> Iterator[Finding]:
    """Network cards can read and write GPU memory: through the peer-memory module, or through dma-buf."""
    ports = _data_ports(fabric)
    if isinstance(gpus, Unavailable) or gpus.vendor != "nvidia" or not between_nodes(launch, gpus):
        return
    if _switched_off(settings) is not None:
        return
    if not ports:
        _insist_on_states(fabric.ports)
    if not ports or not _carry_gpu_traffic(ports, gpus):
        return
    if fabric.peer_memory_module is not None or any(kind in gpu.name for gpu in gpus.gpus for kind in NO_GPUDIRECT):
        return
    refused = number_of(settings, "NCCL_DMABUF_ENABLE") == 0
    if fabric.dma_buf is None and not refused:
        raise Unavailable("no peer-memory module is loaded, and whether there is dma-buf instead can't be read here")
    if fabric.dma_buf and not refused:
        return
    why = "NCCL_DMABUF_ENABLE=0 refuses dma-buf" if refused else "the kernel or the driver has no dma-buf for it"
    yield rules.DC416.found(
        f"{listed(port.name for port in ports)} can't reach GPU memory directly: no peer-memory module is loaded, and "
        f"{why}, so NCCL copies through the host's memory",
        where=Where(object="nvidia_peermem"),
        evidence={"peer_memory_module": None, "dma_buf": fabric.dma_buf, "ports": [port.name for port in ports]},
        fix=shared_fixes.LOAD_PEERMEM,
    )


@probe(rules.DC420)
def nvlink_fabric_is_ready(
    launch: Launch, settings: Settings, fabric: Fabric, gpus: Gpus | Unavailable
) -> Iterator[Finding]:
    """GPUs whose NVLink reaches other hosts have an IMEX channel, and NVLink SHARP is not forced on others."""
    if isinstance(gpus, Unavailable) or gpus.vendor != "nvidia" or not launch.launched or not uses_nccl(launch, gpus):
        return
    names = sorted({gpu.name for gpu in gpus.gpus})
    racks = [name for name in names if any(kind in name for kind in NVLINK_RACKS)]
    refused = number_of(settings, "NCCL_MNNVL_ENABLE") == 0
    if racks and launch.several_nodes and fabric.imex_channels == 0 and not refused:
        yield rules.DC420.found(
            f"{listed(racks)} can talk over NVLink to other nodes, but this process sees no IMEX channel "
            "(/dev/nvidia-caps-imex-channels), so NCCL fails or uses the slower network",
            where=Where(object="/dev/nvidia-caps-imex-channels"),
            evidence={"imex_channels": 0, "gpus": names},
            fix=shared_fixes.START_IMEX,
        )
    forced = settings.of("NCCL_NVLS_ENABLE")
    without = [gpu.name for gpu in gpus.gpus if _older_than(gpu.architecture, NVLS_ARCHITECTURE)]
    if forced is None or number_of(settings, "NCCL_NVLS_ENABLE") != 1 or not without or len(gpus.gpus) < 2:
        return
    yield rules.DC420.found(
        f"{written(forced)} makes NCCL use NVLink SHARP unconditionally; {without[0]} does not have it",
        where=Where(variable="NCCL_NVLS_ENABLE"),
        evidence={"value": forced.value, "gpus": names},
        fix=leave_out(forced, "NCCL then uses NVLink SHARP where the GPUs have it"),
    )


def between_nodes(launch: Launch, gpus: Gpus | Unavailable) -> bool:
    """A launch that talks over NCCL between nodes: the only one to which RDMA matters."""
    return launch.launched and launch.several_nodes and uses_nccl(launch, gpus)


def gpu_traffic_ports(fabric: Fabric, gpus: Gpus | Unavailable) -> list[RdmaPort]:
    """The ACTIVE ports that a job on several nodes loses where RDMA is switched off; EFA is none of them."""
    ports = _data_ports(fabric)
    return ports if ports and _carry_gpu_traffic(ports, gpus) else []


def number_of(settings: Settings, name: str) -> int | None:
    """A variable as NCCL reads numbers; None where it is not set, or too large."""
    text = settings.get(name)
    return None if text is None else c_integer(text)[0]


# reading


def _library(world: World, name: str, more: tuple[str, ...] = ()) -> str | None:
    """Where the loader finds a library in a process of this Python; ``more`` folders come last."""
    if name.startswith("/"):
        return name if world.exists(name) else None
    # Python of conda searches the folder next to its own modules
    own = [match[1] for entry in world.python_path if (match := re.fullmatch(r"(/.*)/python\d+\.\d+", entry))]
    for path, _ in search(world, name, world.environ.get("LD_LIBRARY_PATH"), before=own):
        return path
    return next((f"{folder}/{name}" for folder in more if world.exists(f"{folder}/{name}")), None)


def _names(world: World, folder: str) -> tuple[str, ...]:
    """Return the names in a folder, none if there is no such folder; raises Unavailable if it can't be read."""
    try:
        return world.list_folder(folder)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        raise Unavailable(f"{folder} can't be read: {error.strerror}") from error


def _plugin_names(setting: str | None) -> tuple[str, ...]:
    """Return what NCCL loads for a value of NCCL_NET_PLUGIN: names, paths or endings, or ``none``."""
    if not setting:
        return ("libnccl-net.so",)
    names: list[str] = []
    for entry in setting.split(","):
        if entry and entry != "none":
            names += [entry] if ".so" in entry else [f"libnccl-net-{entry}.so"]
    return tuple(names)


def _read_device(world: World, device: str, index: int) -> Iterator[RdmaPort]:
    folder = f"/sys/class/infiniband/{device}"
    pci = world.link_or_empty(f"{folder}/device").rstrip("/").rpartition("/")[2]
    efa = _text(world, f"{folder}/device/vendor") == AMAZON or device.startswith("efa")
    interfaces = world.names_or_empty(f"{folder}/device/net")
    card_type = _text(world, f"{folder}/hca_type")
    for name in _names(world, f"{folder}/ports"):
        if not name.isdigit():
            continue
        place = f"{folder}/ports/{name}"
        link_layer = _text(world, f"{place}/link_layer")
        # of an unknown kind, a port is as good as unread
        state = _text(world, f"{place}/state").partition(":")[2].strip() if link_layer else ""
        rate = re.match(r"[\d.]+", _text(world, f"{place}/rate"))
        yield RdmaPort(
            device,
            int(name),
            state,
            physical_state=_text(world, f"{place}/phys_state").partition(":")[2].strip(),
            link_layer=link_layer,
            rate_gbit_per_s=float(rate[0]) if rate else None,
            # InfiniBand uses LIDs: its GIDs do not matter here
            gids=tuple(_read_gids(world, place, index)) if link_layer == "Ethernet" else (),
            interfaces=interfaces,
            efa=efa,
            counters=() if state == "ACTIVE" else tuple(_read_counters(world, place)),
            pci=pci,
            card_type=card_type,
        )


def _read_gids(world: World, place: str, index: int) -> Iterator[Gid]:
    """The entries that are not zero, as far as the table is read: each entry is a file of its own."""
    empty = 0
    entries = list(range(MOST_GIDS))
    if index >= MOST_GIDS:
        entries.append(index)
    for number in entries:
        if empty >= EMPTY_GIDS_AT_END and number != index:
            continue
        gid = _text(world, f"{place}/gids/{number}")
        if not gid.strip("0:"):
            empty += 1
            continue
        empty = 0
        yield Gid(
            number,
            gid,
            _text(world, f"{place}/gid_attrs/types/{number}"),
            _text(world, f"{place}/gid_attrs/ndevs/{number}"),
        )


def _read_counters(world: World, place: str) -> Iterator[tuple[str, int]]:
    for name in ("link_downed", "link_error_recovery", "symbol_error"):
        text = _text(world, f"{place}/counters/{name}")
        if text.isdigit():
            yield name, int(text)


def _can_open_verbs(world: World) -> bool:
    """Whether any of the devices can be opened. Opening one has no effect; nothing is read from it."""
    for name in world.names_or_empty("/dev/infiniband"):
        path = f"/dev/infiniband/{name}"
        if not name.startswith("uverbs") or not world.writable(path):
            continue
        try:
            world.read_bytes(path, 0)
        except OSError:  # a container's device rules refuse what permissions allow
            continue
        return True
    return False


def _dma_buf(world: World) -> bool | None:
    """NVIDIA's driver exports GPU memory as dma-buf only with its open kernel modules; the kernel must know it, too."""
    driver = _text(world, "/proc/driver/nvidia/version")
    match = re.match(r"(\d+)\.(\d+)", _text(world, "/proc/sys/kernel/osrelease"))
    if not driver or match is None:
        return None
    if "Open Kernel Module" not in driver:
        return False
    if (int(match[1]), int(match[2])) >= DMA_BUF_KERNEL:
        return True
    return None if ".el" in _text(world, "/proc/sys/kernel/osrelease") else False


def _text(world: World, path: str) -> str:
    """A small file without blanks around it; empty where it can't be read, as unused entries of sysfs can't."""
    return world.text_or_empty(path).strip()


# judging


def _data_ports(fabric: Fabric) -> list[RdmaPort]:
    """Return the ACTIVE ports that seem intended for traffic between GPUs.

    InfiniBand where there is any: an Ethernet port next to it is for storage. Otherwise fast Ethernet ports with an
    address that RoCE can use; a virtual machine's accelerated network card has none.
    """
    usable = [port for port in fabric.ports if port.usable]
    infiniband = [port for port in usable if port.link_layer == "InfiniBand"]
    return infiniband or [
        port
        for port in usable
        if (port.rate_gbit_per_s or 0.0) >= FAST_GBIT_PER_S and any(gid.routable_v2 for gid in port.gids)
    ]


def _carry_gpu_traffic(ports: list[RdmaPort], gpus: Gpus | Unavailable) -> bool:
    """InfiniBand does; RoCE where there is at least a port for every two GPUs, since one or two may be for storage."""
    cards = 0 if isinstance(gpus, Unavailable) else len(gpus.gpus)
    return ports[0].link_layer == "InfiniBand" or 2 * len(ports) >= cards


def _insist_on_states(ports: Iterable[RdmaPort]) -> None:
    """Raise Unavailable if the state of one of the ports could not be read: it may be ACTIVE."""
    if unread := [port.name for port in ports if not port.state]:
        raise Unavailable(f"the state of {listed(unread)} can't be read in /sys/class/infiniband")


def _device_filter(settings: Settings) -> NameFilter:
    return parse_filter(settings.get("NCCL_IB_HCA") or "", MOST_DEVICES)


def _takes(wanted: NameFilter, port: RdmaPort) -> bool:
    return wanted.takes(port.device, port.port)


def _names_port(wanted: NameFilter, port: RdmaPort) -> bool:
    """Return whether NCCL_IB_HCA names exactly this device; a prefix of many names selects none in particular."""
    return not wanted.exclude and any(
        name == port.device and number in (None, port.port) for name, number in wanted.entries
    )


def _switched_off(settings: Settings) -> Setting | None:
    """The setting that keeps NCCL from RDMA; None without one."""
    if number_of(settings, "NCCL_IB_DISABLE"):
        return settings.of("NCCL_IB_DISABLE")
    if (settings.get("NCCL_NET") or "").lower() == "socket":
        return settings.of("NCCL_NET")
    return None


def _gid_problem(port: RdmaPort, index: int) -> str | None:
    """Why an entry of a RoCE port's GID table can't be used between hosts."""
    gid = next((gid for gid in port.gids if gid.index == index), None)
    if gid is None:
        return "is empty"
    if gid.link_local:
        return f"is link-local ({gid.type or 'type unknown'})"
    if gid.type and gid.type != "RoCE v2":
        return f"is {gid.type}, which is not routed"
    return None


def _better_gid(setting: Setting | None, ports: list[RdmaPort], *, by_itself: bool) -> Fix:
    usable = [{gid.index for gid in port.gids if gid.routable_v2} for port in ports]
    common = sorted(set.intersection(*usable))
    if by_itself and setting is not None:
        return leave_out(setting, "NCCL 2.21 and newer find the right GID of each port by themselves")
    if common:
        text = f"GID {common[0]} is RoCE v2 with an address on all ports that NCCL takes here; other nodes may differ"
        return change(setting, text, f"export NCCL_IB_GID_INDEX={common[0]}")
    return Fix(
        "no GID is RoCE v2 with an address on all ports of NCCL. Have an administrator give their interfaces "
        "IPv4 addresses, or use NCCL 2.21 or newer, which selects a GID on each port",
        by="admin",
        where="host",
    )


def _nccl_version(software: Software | Unavailable) -> Version | None:
    """The NCCL that torch will load; None where that is not known."""
    if isinstance(software, Unavailable):
        return None
    texts = [library.version for library in software.nccl_libraries if library.version]
    texts += [version for _, version in software.nccl_packages]
    return next((numbers[:3] for text in texts if len(numbers := version_numbers(text)) > 1), None)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _older_than(architecture: str, least: float) -> bool:
    """Whether a compute capability is known and below another."""
    try:
        return float(architecture) < least
    except ValueError:
        return False


def _install_verbs(platform: Platform | Unavailable) -> Fix:
    packages = "libibverbs1 and ibverbs-providers (Debian, Ubuntu), libibverbs and rdma-core (Red Hat)"
    if not isinstance(platform, Unavailable) and platform.container is not None:
        return Fix(f"install {packages} into the image", where="job-script")
    return Fix(f"have an administrator install {packages}", by="admin", where="host")


def _raise_port(port: RdmaPort) -> str:
    """Who does what about a port that is not ACTIVE."""
    if not port.state:
        return "have an administrator check the card ('dmesg', 'ibstat'), or take this node out of the job"
    if port.state in ("INIT", "ARMED"):
        return "no subnet manager has configured the port: have an administrator check that one runs in this fabric"
    if port.physical_state == "Polling":
        return "the other end does not answer: have an administrator check the cable and the port of the switch"
    if port.physical_state == "Disabled":
        return "the port is switched off: have an administrator switch it on, or remove it from NCCL_IB_HCA"
    return "have an administrator bring the port up, or take this node out of the job"
