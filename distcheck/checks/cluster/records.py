"""What one host reports of itself and its ranks, so that all can be compared: values, and their text form.

A record is small (a few KiB as JSON) and holds no credential: settings come from ``World``, which masks them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from distcheck.checks.host.gpu_access import GpuAccess
from distcheck.core.facts_file import from_plain
from distcheck.core.model import to_plain
from distcheck.core.redaction import mask_all

#: Version of a record. A host with a record of another version is reported as having sent nothing usable.
RECORD_VERSION = 1


class Device(NamedTuple):
    """A GPU, as far as it matters to the other ranks."""

    uuid: str
    #: PCI address, ``00000000:1A:00.0``
    pci: str = ""
    name: str = ""
    memory_bytes: int = 0
    #: compute capability or gfx name
    architecture: str = ""
    #: reasons why it is slowed down right now: ``hw-thermal`` …
    throttle: tuple[str, ...] = ()


class RankRecord(NamedTuple):
    """One rank, as its own launcher numbers it."""

    rank: int
    local_rank: int | None = None
    world_size: int | None = None
    local_world_size: int | None = None
    #: node number that the launcher gave (GROUP_RANK, NODE_RANK, SLURM_NODEID)
    node_rank: int | None = None
    pid: int = 0
    #: the GPU that it would use if it takes ``cuda:LOCAL_RANK``; None: none, or not known
    device: Device | None = None
    #: masks and other variables whose values differ between the ranks of this host
    settings: Mapping[str, str] = {}
    #: whether torch in this process can use a GPU, whichever it is
    gpu_access: GpuAccess = GpuAccess()


class HostInterface(NamedTuple):
    """A network interface that could carry traffic between hosts."""

    name: str
    addresses: tuple[str, ...] = ()
    #: ``physical``, ``bridge``, ``virtual``, ``loopback`` …, as ``host/interfaces.py`` names kinds
    kind: str = "other"
    up: bool | None = None
    mtu_bytes: int | None = None
    speed_mbit_per_s: int | None = None
    #: NCCL's own choice, and gloo's
    nccl: bool = False
    gloo: bool = False
    #: it holds the default route
    default_route: bool = False


class HostRdmaPort(NamedTuple):
    """A port of an RDMA device."""

    device: str
    port: int
    state: str = ""
    link_layer: str = ""
    rate_gbit_per_s: float | None = None
    efa: bool = False
    #: NCCL_IB_HCA lets it in
    selected: bool = True


class ClockOffset(NamedTuple):
    """The host's clock against that of the first host."""

    #: seconds that it is ahead
    offset_s: float
    #: half of the round trip: the offset is known no better than this
    error_s: float


class Code(NamedTuple):
    """The working directory of the ranks, as far as Git's own files show it."""

    folder: str = ""
    #: the commit, 40 hex digits; "" outside of a repository
    commit: str = ""
    branch: str = ""


class HostRecord(NamedTuple):
    """One host and its ranks."""

    host: str
    ranks: tuple[RankRecord, ...] = ()
    #: the kernel's boot_id
    boot_id: str = ""
    #: namespaces and devices that decide what processes share: ``ipc``, ``mnt``, ``net``, ``uts``, ``shm``
    namespaces: Mapping[str, str] = {}
    container: str | None = None
    #: ``python``, ``torch``, ``cuda``, ``hip``, ``nccl`` (the library found), ``driver``, ``kernel``, ``distcheck`` …
    versions: Mapping[str, str] = {}
    #: variables that bear on distributed training, equal for all ranks here; credentials are masked
    settings: Mapping[str, str] = {}
    #: where a setting comes from, unless from the environment: a file
    origins: Mapping[str, str] = {}
    gpus: tuple[Device, ...] = ()
    interfaces: tuple[HostInterface, ...] = ()
    rdma_ports: tuple[HostRdmaPort, ...] = ()
    #: network plug-ins of NCCL found here, by file name
    plugins: tuple[str, ...] = ()
    #: backends that the installed torch has: ``gloo``, ``nccl`` …
    backends: tuple[str, ...] = ()
    clock: ClockOffset | None = None
    code: Code | None = None
    #: what could not be read here, by the name of the field, and why
    unavailable: Mapping[str, str] = {}


class ConnectionAttempt(NamedTuple):
    """One try to connect from a host to another, on a port that the other listened on."""

    source: str
    target: str
    address: str
    port: int
    #: ``timeout``, ``refused``, ``no-route``, ``failed``, or ``stalled``: connected, and a large block did not pass
    outcome: str
    error: str | None = None


class Reach(NamedTuple):
    """Which hosts reached which: only what failed is listed."""

    #: connections that were tried, and how many hosts took part
    tried: int = 0
    hosts: int = 0
    failed: tuple[ConnectionAttempt, ...] = ()
    #: every pair was tried; false: each host tried some others
    complete: bool = True
    #: ports of a host that another one tried, and the lowest and highest of all that were tried; 0: not known
    doors: int = 0
    low_port: int = 0
    high_port: int = 0


class Caller(NamedTuple):
    """A process that joined the membership check."""

    rank: int
    host: str
    pid: int = 0
    world_size: int | None = None


class Roll(NamedTuple):
    """Who answered within the time, and who did not."""

    world_size: int
    #: how many different ranks answered
    present: int
    missing: tuple[int, ...] = ()
    #: processes that answered with a number that another one had, or one that can't be
    surplus: tuple[Caller, ...] = ()
    #: for ranks that are missing: the host where they were expected, if known
    expected: Mapping[int, str] = {}
    waited_s: float = 0.0
    timeout_s: float = 0.0
    #: ``ranks``, or ``hosts`` where whole hosts are called before any rank was started (numbers are node ranks then)
    of: str = "ranks"


class Cluster(NamedTuple):
    """All hosts side by side."""

    hosts: tuple[HostRecord, ...]
    #: the backend that all will use: ``nccl``, ``gloo``; None: not known
    backend: str | None = None
    world_size: int | None = None
    #: ``c10d``, ``static`` …; None: not known
    rendezvous: str | None = None
    #: hosts that should have sent a record and did not
    silent: tuple[str, ...] = ()
    #: a launch was given or runs; else only hosts are compared, and rules about launches keep silent
    launched: bool = True


class RecordError(ValueError):
    """A record that cannot be read; the message gives the reason."""


def to_json(value: Any) -> str:
    """A record (or another named tuple of this module) in one line of JSON."""
    plain = mask_all(to_plain(value))
    return json.dumps({"v": RECORD_VERSION, "record": plain}, ensure_ascii=True, separators=(",", ":"))


def from_json(made: Any, text: str | bytes) -> Any:
    """The reverse of :func:`to_json`; raises RecordError."""
    try:
        plain = json.loads(text)
        if plain["v"] != RECORD_VERSION:
            raise RecordError(f"it is of version {plain['v']!r}; this distcheck reads version {RECORD_VERSION}")
        found = from_plain(made, plain["record"])
        if not isinstance(found, made):
            raise RecordError(f"it holds no {made.__name__}")
        return found
    except RecordError:
        raise
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise RecordError(f"it is damaged: {error}") from None


def join_ranks(records: Iterable[HostRecord]) -> tuple[HostRecord, ...]:
    """Merge the records of single ranks of one host; a host is identified by its name, its boot and what it shares.

    Where a rank's settings differ from those of its host's first rank, they stand with the rank ("" for one that it
    does not have).
    """
    hosts: dict[tuple[str, ...], HostRecord] = {}
    ranks: dict[tuple[str, ...], list[RankRecord]] = {}
    for record in records:
        key = (record.host, record.boot_id, *(record.namespaces.get(name, "") for name in ("uts", "ipc", "shm")))
        known = hosts.setdefault(key, record)
        if not known.versions and record.versions:  # only the first rank of a host reports all of it
            hosts[key] = record
        own = _other_settings(hosts[key].settings, record.settings)
        ranks.setdefault(key, []).extend(
            rank._replace(settings={**own, **rank.settings}) if own else rank for rank in record.ranks
        )
    return tuple(
        sorted(
            (host._replace(ranks=tuple(sorted(ranks[key], key=lambda item: item.rank))) for key, host in hosts.items()),
            key=lambda host: (host.ranks[0].rank if host.ranks else 0, host.host),
        )
    )


def _other_settings(common: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    if common == own:
        return {}
    return {name: own.get(name, "") for name in {*common, *own} if own.get(name, "") != common.get(name, "")}
