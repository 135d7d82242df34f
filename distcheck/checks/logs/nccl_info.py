"""Reads from NCCL's INFO log what it really used: the transport, the network and the algorithms.

Its lines differ a little from 2.4 to 2.32, so each is matched alone, and unknown lines are ignored. Other modules
compare the result with what a host has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from distcheck.core.model import Unavailable, grouped
from distcheck.core.patterns import lazy

from .model import Event, LineAuthor, Timeline

#: Longest log that is read, in bytes: what is needed below is some hundred lines a communicator.
_LONGEST_LOG = 16 << 20
#: So many warnings and variables are kept.
_MOST_KEPT = 16

#: ``host:pid:tid [device] NCCL INFO text``; from 2.25 on a timestamp may stand before it, and a WARN line names its
#: location in the source (``src/debug.cc``: ncclDebugLog).
_LINE = lazy(r"NCCL (?P<level>INFO|WARN) (?P<text>.*)")
#: RCCL writes ``RCCL version 2.20.5+hip6.2``, later ``RCCL version : 2.22.3-HEAD:…``.
_VERSION = lazy(r"[NR]CCL version ?:? ?(?P<version>\d+\.\d+(?:\.\d+)?)")
#: 2.4 and 2.5 wrote ``Using internal Network Socket``; from 2.21 on, ``Using internal network plugin.`` names none.
_NETWORK = lazy(r"Using (?:internal )?[nN]etwork (?!plugin)(?P<name>.+)")
_PLUGIN = lazy(r"(?:Loaded net plugin|P2P plugin:?) (?:v\d+ )?(?P<name>[^(]+?)(?: \(v\d+\))?$")
_DEVICES = lazy(r"NET/(?P<net>[\w ]+?) ?: Using (?P<list>\[\d+\].*)")
#: ``[0]mlx5_0:1/IB``; ports that act as one are ``[1]={[2] mlx5_2:1/RoCE, [3] mlx5_3:1/RoCE}`` (2.20 to 2.22).
_DEVICE = lazy(r"\[\d+\] ?(?P<name>[^\s:;={]+)(?::(?P<port>\d+))?(?:/(?P<layer>IB|RoCE|Unknown))?")
_ADDRESS = lazy(r"\[\d+\](?P<name>[\w.@-]+):(?P<address>[0-9A-Fa-f.:]+)(?:%\w+)?<")
#: NCCL up to 2.3 lists all interfaces, a line for each, and the bootstrap takes the first.
_BOOTSTRAP = lazy(r"(?:Bootstrap ?: Using (?:\[\d+\])?|NET : Using interface )(?P<name>[^\s:]+):(?P<address>[^\s<]*)")
#: 2.4 to 2.7 write ``Ring`` for a channel, and ``direct shared memory`` for SHM.
_CHANNEL = lazy(
    r"(?:Channel|Ring) \d+(?:/\d+)? ?: \d+(?:\[\w+\])? -> \d+(?:\[\w+\])?(?: \[(?:send|receive)\])? via "
    r"(?P<via>NET/[^/]+/\S+|direct shared memory|\S+)"
)
_GDR = lazy(r"NET/[\w ]+ ?: GPU Direct RDMA (?P<state>Enabled|Disabled) for HCA")
_COMMUNICATOR = lazy(r"\bn[rR]anks (?P<ranks>\d+)(?: nNodes (?P<nodes>\d+)(?:.* MNNVL (?P<domain>\d))?)?")
_ALGORITHM = lazy(r"(?:(?P<what>\w{1,40}): )?(?P<bytes>\d{1,20}) Bytes -> Algo (?P<name>\w+) proto (?P<protocol>\w+)")
_MULTICAST = lazy(r"NVLS multicast support is (?P<no>not )?available")
_SETTING = lazy(r"(?P<name>NCCL_\w+) set (?:by environment )?to (?P<value>.+?)\.?$")
#: Numbers of algorithms before NCCL 2.24 wrote their names (``nccl_common.h``: NCCL_ALGO_…, the same since 2.18).
_ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")

#: Why there is no RDMA, by what the log reports.
_ERRORS = (
    ("no-verbs", ("Failed to open libibverbs.so",)),
    ("no-device", ("NET/IB : No device found", "NET/IB: No device found")),
    ("plugin-failed", ("NET/OFI Initializing plugin failed", "aws-ofi-nccl initialization failed")),
)


class Transport(NamedTuple):
    """What NCCL used in one process, by its log. Empty where the log does not show it."""

    version: str = ""
    #: ``IB``, ``Socket``, or the name that a plug-in gives itself: ``AWS Libfabric``, ``Libfabric``, ``IBext_v8`` …
    network: str = ""
    plugin: str = ""
    #: devices or interfaces of that network, as NCCL names them: ``mlx5_0``, ``eth0``
    interfaces: tuple[str, ...] = ()
    #: the interface over which the ranks found each other
    bootstrap: str = ""
    #: NICs read GPU memory directly; None: not logged
    gdr: bool | None = None
    #: how many channels were made over each kind of transport: ``P2P/CUMEM``, ``SHM/direct``, ``NET/IB/GDRDMA`` …
    channels: Mapping[str, int] = {}
    #: the algorithm of the largest message of each collective: ``AllReduce`` → ``NVLS``
    algorithms: Mapping[str, str] = {}
    #: multicast in the NVSwitch is there; None: not logged
    multicast: bool | None = None
    ranks: int | None = None
    nodes: int | None = None
    #: variables of NCCL that are set according to the log
    settings: Mapping[str, str] = {}
    #: why RDMA is not used, as far as the log shows it: ``no-device``, ``no-verbs``, ``plugin-failed``
    troubles: tuple[str, ...] = ()
    #: texts of NCCL's own warnings, the first ones
    warnings: tuple[str, ...] = ()
    #: the address that it has on :attr:`bootstrap`
    address: str = ""
    #: the interfaces that it sends over, by their addresses
    addresses: Mapping[str, str] = {}
    #: the hosts are trays of one NVLink domain (MNNVL)
    domain: bool = False

    @property
    def on_tcp(self) -> bool:
        """Return whether data between hosts goes over TCP; in an NVLink domain only if a channel shows it."""
        return self.network == "Socket" and not (self.domain and not self.count("NET"))

    def count(self, kind: str) -> int:
        """Channels over ``P2P``, ``SHM`` or ``NET``."""
        return sum(number for name, number in self.channels.items() if name.partition("/")[0] == kind)

    @property
    def nvls(self) -> bool | None:
        """Return whether the NVSwitch reduces (NVLS): by the algorithm used if it is logged, else by what is there."""
        if self.algorithms:
            return any(name.startswith("NVLS") for name in self.algorithms.values())
        return self.multicast


def read_log(path: str) -> Transport:
    """Return what a log file shows; raises Unavailable where it can't be read or holds no line of NCCL."""
    try:
        with open(path, "rb") as file:
            text = file.read(_LONGEST_LOG).decode("utf-8", "replace")
    except OSError as error:
        raise Unavailable(f"NCCL's log can't be read: {error.strerror}") from error
    if "NCCL " not in text:
        raise Unavailable("NCCL wrote nothing into its log")
    return parse_log(text.splitlines())


def parse_log(lines: Iterable[str]) -> Transport:
    """Return what the lines of a log show; lines of other programs are skipped."""
    reading = _InfoReader()
    for line in lines:
        match = _LINE.search(line)
        if match is not None:
            reading.take(match["level"], match["text"].strip())
        elif _VERSION.match(line):
            # rank 0 prints it without a head before 2.22
            reading.take("INFO", line)
    return reading.transport()


class _InfoReader:
    """What was read so far."""

    def __init__(self) -> None:
        self.words: dict[str, str] = {}
        self.interfaces: dict[str, list[str]] = {}
        self.addresses: dict[str, str] = {}
        self.gdr: bool | None = None
        self.channels: dict[str, int] = {}
        self.algorithms: dict[str, tuple[int, str]] = {}
        self.multicast: bool | None = None
        self.ranks: int | None = None
        self.nodes: int | None = None
        self.domain = False
        self.settings: dict[str, str] = {}
        self.troubles: dict[str, None] = {}
        self.warnings: dict[str, None] = {}

    def take(self, level: str, text: str) -> None:
        """One line without its head."""
        if level == "WARN" and len(self.warnings) < _MOST_KEPT:
            self.warnings[text] = None
        for error, texts in _ERRORS:
            if any(part in text for part in texts):
                self.troubles[error] = None
        for pattern, take in (
            (_CHANNEL, self.channel),
            (_ALGORITHM, self.algorithm),
            (_VERSION, self.version),
            (_NETWORK, self.network),
            (_DEVICES, self.devices),
            (_PLUGIN, self.plugin),
            (_BOOTSTRAP, self.bootstrap),
            (_GDR, self.direct),
            (_COMMUNICATOR, self.communicator),
            (_MULTICAST, self.switch),
            (_SETTING, self.setting),
        ):
            match = pattern.search(text)
            if match is not None:
                take(match)
                return

    def channel(self, match: re.Match[str]) -> None:
        # NET/IB/0/GDRDMA, NET/IB/3(2)/GDRDMA(PCI)/Shared, P2P/CUMEM/read, P2P/indirect/…, SHM/direct/direct
        via = match["via"]
        kind, *rest = ("SHM", "direct") if via == "direct shared memory" else via.split("/")
        if kind == "NET":
            direct = any(part.startswith("GDRDMA") for part in rest)
            name = "/".join(["NET", rest[0] if rest else "", *(["GDRDMA"] if direct else [])])
        else:
            name = "/".join([kind, *rest[:1]])
        self.channels[name] = self.channels.get(name, 0) + 1

    def algorithm(self, match: re.Match[str]) -> None:
        name = match["name"].upper()
        if name.isdecimal():
            name = _ALGORITHMS[int(name)] if int(name) < len(_ALGORITHMS) else name
        size = int(match["bytes"])
        what = match["what"] or "AllReduce"
        if size >= self.algorithms.get(what, (-1, ""))[0]:
            self.algorithms[what] = (size, name)

    def version(self, match: re.Match[str]) -> None:
        self.words.setdefault("version", match["version"])

    def network(self, match: re.Match[str]) -> None:
        # each communicator writes it, and the last one measures
        self.words["network"] = match["name"].strip()

    def plugin(self, match: re.Match[str]) -> None:
        self.words.setdefault("plugin", match["name"].strip())

    def devices(self, match: re.Match[str]) -> None:
        if match["net"].strip() == "Socket":
            self.addresses.update((pair["address"], pair["name"]) for pair in _ADDRESS.finditer(match["list"]))
        known = self.interfaces.setdefault(match["net"].strip(), [])
        for device in _DEVICE.finditer(match["list"].partition(";")[0]):
            if device["name"] not in known:
                known.append(device["name"])

    def bootstrap(self, match: re.Match[str]) -> None:
        self.words.setdefault("bootstrap", match["name"])
        # over the network itself (NCCL_OOB_NET_ENABLE) it is a device and its port
        if not match["address"].isdecimal():
            self.words.setdefault("address", match["address"])

    def direct(self, match: re.Match[str]) -> None:
        if self.gdr is None:
            self.gdr = match["state"] == "Enabled"

    def communicator(self, match: re.Match[str]) -> None:
        # the largest communicator is the one that the run is about
        ranks = int(match["ranks"])
        if ranks < (self.ranks or 0):
            return
        # some of its lines name the nodes, others only the ranks
        self.nodes = int(match["nodes"]) if match["nodes"] else self.nodes if ranks == self.ranks else None
        self.ranks = ranks
        if match["domain"]:
            self.domain = match["domain"] != "0"

    def switch(self, match: re.Match[str]) -> None:
        self.multicast = match["no"] is None

    def setting(self, match: re.Match[str]) -> None:
        if len(self.settings) < _MOST_KEPT:
            self.settings.setdefault(match["name"], match["value"].strip())

    def transport(self) -> Transport:
        network = self.words.get("network", "")
        interfaces = self.interfaces.get(network, [])
        if not interfaces and network not in ("", "Socket"):
            # plug-ins around InfiniBand (IBext …) name their devices as NET/IB does
            interfaces = self.interfaces.get("IB", [])
        # what a NIC could do counts only where no channel shows what it does
        used = [name.endswith("/GDRDMA") for name in self.channels if name.startswith("NET/")]
        return Transport(
            version=self.words.get("version", ""),
            network=network,
            plugin=self.words.get("plugin", ""),
            interfaces=tuple(interfaces),
            bootstrap=self.words.get("bootstrap", ""),
            gdr=any(used) if used else self.gdr,
            channels=self.channels,
            algorithms={what: name for what, (_, name) in self.algorithms.items()},
            multicast=self.multicast,
            ranks=self.ranks,
            nodes=self.nodes,
            settings=self.settings,
            troubles=tuple(self.troubles),
            warnings=tuple(self.warnings),
            address=self.words.get("address", ""),
            addresses=self.addresses,
            domain=self.domain,
        )


class NcclProcess(NamedTuple):
    """What one process of a log shows of NCCL, and the lines that show it."""

    who: LineAuthor
    transport: Transport
    events: tuple[Event, ...]

    @property
    def host(self) -> str | None:
        return self.who.host


def processes(timeline: Timeline) -> tuple[NcclProcess, ...]:
    """What NCCL used in each process, in the order in which they speak, from the lines that the reading kept.

    Of all restarts the last one with lines of NCCL counts.
    """
    lines = timeline.of("nccl-info", "nccl-setting", "nccl-trouble")
    if not lines:
        return ()
    last = max(event.attempt for event in lines)
    groups = grouped((event for event in lines if event.attempt == last), _process)
    return tuple(
        NcclProcess(
            max((event.who for event in events), key=_known_fields),
            parse_texts(event.text for event in events),
            tuple(events),
        )
        for events in groups.values()
    )


def node_count(found: Iterable[NcclProcess]) -> int:
    """Return how many nodes the job has, by NCCL's lines, else by the hosts that wrote them; at least 1."""
    everyone = tuple(found)
    counts = [process.transport.nodes for process in everyone if process.transport.nodes is not None]
    return max(counts) if counts else max(1, len({process.host for process in everyone if process.host}))


def parse_texts(texts: Iterable[str]) -> Transport:
    """Return what lines of NCCL show whose head (``host:pid:tid [0] NCCL INFO``) may be cut off."""
    reading = _InfoReader()
    for text in texts:
        match = _LINE.search(text)
        reading.take(match["level"] if match else "INFO", (match["text"] if match else text).strip())
    return reading.transport()


def _process(event: Event) -> tuple[str | int | None, ...]:
    who = event.who
    if who.pid is not None:
        return (who.host, who.pid)
    return (event.source, who.host, who.rank, who.local_rank, who.task)


def _known_fields(who: LineAuthor) -> int:
    return sum(part is not None for part in who)
