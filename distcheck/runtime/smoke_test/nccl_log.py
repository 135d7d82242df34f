"""Judges the transport in NCCL's INFO log against the hosts' hardware, and sets the variables that write this log.

NCCL has no call that returns the transport, network and algorithm that it uses. The log goes to a file in a private
folder (:func:`variables`); its reader is :mod:`distcheck.checks.logs.nccl_info`. Nothing here needs NCCL.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping

from distcheck import rules
from distcheck.checks.cluster.hostlist import shorten_hosts
from distcheck.checks.cluster.records import Cluster, HostRdmaPort, HostRecord
from distcheck.checks.logs.nccl_info import Transport
from distcheck.core.model import Finding, Fix, NotApplicable, Unavailable, Where
from distcheck.core.registry import probe
from distcheck.rules import shared_fixes

#: Words in the names of NVIDIA's GPUs on boards where every GPU has NVLink: all of one entry.
_NVLINK_BOARDS = (
    ("sxm2",), ("sxm3",), ("sxm4",), ("sxm5",), ("h100", "hbm3"), ("h800",), ("h20",), ("h200",), ("b200",), ("b300",),
    ("gb200",), ("gb300",),
)  # fmt: skip
#: Words of their brothers that need a bridge, or that are a part of a GPU.
_NO_BOARD = frozenset({"nvl", "pcie", "mig"})
#: So many ports and interfaces are named.
_MOST_NAMED = 4


def variables(environ: Mapping[str, str], folder: str) -> dict[str, str]:
    """What to set so that NCCL writes its log into a folder; {} where the user directs that log already.

    A file of its own per process (``%h`` and ``%p`` are NCCL's words for host and process), so that no line of it
    lands between the lines of a report.
    """
    if any(environ.get(name) for name in ("NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS")):
        return {}
    return {
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,NET,TUNING,GRAPH",
        "NCCL_DEBUG_FILE": os.path.join(folder, "nccl.%h.%p.log"),
    }


# judging


def has_nvlink(name: str) -> bool:
    """Return whether a GPU of this name is on a board where all GPUs have NVLink; False if unknown."""
    words = set(re.findall(r"[a-z0-9]+", name.lower()))
    return not words & _NO_BOARD and any(words.issuperset(board) for board in _NVLINK_BOARDS)


@probe(rules.DC516)
def network_is_the_fastest_there(transport: Transport, cluster: Cluster) -> Iterator[Finding]:
    """Between hosts with active RDMA ports, NCCL does not send over TCP."""
    nodes = len(cluster.hosts) if transport.nodes is None else transport.nodes
    if nodes < 2 or len(cluster.hosts) < 2:
        raise NotApplicable("one host: NCCL needs no network")
    if not transport.network:
        raise Unavailable("NCCL's log does not name the network that it uses")
    if not transport.on_tcp:
        return
    ports = {host.host: found for host in cluster.hosts if (found := _data_ports(host))}
    if not ports:
        return
    first, example = next(iter(ports.items()))
    text, cause, fix = _why_tcp(transport, cluster, example)
    over = f" ({', '.join(transport.interfaces[:_MOST_NAMED])})" if transport.interfaces else ""
    active = ", ".join(f"{port.device}:{port.port}" for port in example[:_MOST_NAMED])
    one = len(ports) == 1
    such = f"ports ({active})" if one else f"ports (on {first}: {active})"
    without = [item.host for item in cluster.hosts if item.host not in ports and "rdma_ports" not in item.unavailable]
    others = f"; {shorten_hosts(without)} {'has' if len(without) == 1 else 'have'} none" if without else ""
    yield rules.DC516.found(
        f"NCCL sends over TCP{over} between {nodes} hosts, although {shorten_hosts(ports)} {'has' if one else 'have'} "
        f"ACTIVE RDMA {such}{others}: {text}",
        where=Where(host=first if one else None, object="network", phase="measure"),
        evidence={
            "network": transport.network,
            "interfaces": list(transport.interfaces),
            "nccl_version": transport.version,
            "cause": cause,
            "hosts": len(cluster.hosts),
            "hosts_with_active_ports": len(ports),
            "active_ports": [f"{port.device}:{port.port}" for port in example],
        },
        fix=fix,
    )


@probe(rules.DC516)
def local_ranks_use_nvlink(transport: Transport, cluster: Cluster) -> Iterator[Finding]:
    """Ranks of one host whose GPUs have NVLink do not go through the host's memory."""
    shared = transport.count("SHM")
    if not shared or transport.count("P2P"):
        return
    for host in cluster.hosts:
        devices = {rank.device.uuid: rank.device.name for rank in host.ranks if rank.device is not None}
        if len(host.ranks) < 2 or len(devices) < 2 or not all(has_nvlink(name) for name in devices.values()):
            continue
        name = next(iter(devices.values()))
        text, fix = _why_shared_memory(transport, host)
        yield rules.DC516.found(
            f"the {len(devices)} {name} GPUs of {host.host} have NVLink, but NCCL made all {shared} channels between "
            f"them through shared memory: {text}",
            where=Where(host=host.host, object="NVLink", phase="measure"),
            evidence={
                "channels": dict(transport.channels),
                "gpu": name,
                "gpus": len(devices),
                "nccl_version": transport.version,
            },
            fix=fix,
        )
        # the log is that of one process: the other hosts are only alike
        return


def _data_ports(host: HostRecord) -> list[HostRdmaPort]:
    """The ACTIVE ports of a host that NCCL may use and that are there for the GPUs' traffic.

    InfiniBand is, and EFA. RoCE is where there is at least a port for every two GPUs: one or two may be for storage.
    """
    active = [port for port in host.rdma_ports if port.state.endswith("ACTIVE") and port.selected]
    fast = [port for port in active if port.efa or port.link_layer == "InfiniBand"]
    if fast:
        return fast
    ethernet = [port for port in active if port.link_layer == "Ethernet"]
    cards = max(len(host.gpus), len({rank.device.uuid for rank in host.ranks if rank.device is not None}))
    return ethernet if 2 * len(ethernet) >= cards else []


def _setting(transport: Transport, hosts: Iterable[HostRecord], name: str) -> tuple[str, str] | None:
    """The value of a variable and where it was set: by NCCL's own word, or by a host's record."""
    for host in hosts:
        if host.settings.get(name):
            return host.settings[name], host.origins.get(name, "")
    value = transport.settings.get(name)
    return (value, "") if value else None


def _leave_out(name: str, origin: str, then: str) -> Fix:
    """A variable goes where it was set; the site's own file is the site's to change, after a measurement."""
    if origin and origin not in ("environment", "launcher", "command"):
        return Fix(
            f"let the administrators of this cluster remove {name} from {origin}, and show them this measurement; "
            f"{then}",
            by="site",
            where="host",
        )
    return Fix(f"remove {name}; {then}", command=f"unset {name}", where="job-script")


def _why_tcp(transport: Transport, cluster: Cluster, ports: list[HostRdmaPort]) -> tuple[str, str, Fix]:
    """The likely cause: a sentence, a word for machines, and what to do."""
    disabled = _setting(transport, cluster.hosts, "NCCL_IB_DISABLE")
    if disabled is not None and disabled[0].strip().isdigit() and int(disabled[0]):
        text = f"NCCL_IB_DISABLE={disabled[0]} switches InfiniBand and RoCE off"
        return text, "NCCL_IB_DISABLE", _leave_out("NCCL_IB_DISABLE", disabled[1], "NCCL then finds the ports itself")
    network = _setting(transport, cluster.hosts, "NCCL_NET")
    if network is not None and network[0].lower() == "socket":
        text = f"NCCL_NET={network[0]} selects it"
        return text, "NCCL_NET", _leave_out("NCCL_NET", network[1], "NCCL then takes the fastest network itself")
    if "plugin-failed" in transport.troubles or all(port.efa for port in ports):
        failed = "plugin-failed" in transport.troubles
        return (
            "the plug-in for EFA, aws-ofi-nccl, failed" if failed else "EFA needs the plug-in aws-ofi-nccl",
            "plug-in",
            Fix(
                "use an image with libfabric and an aws-ofi-nccl that fits this NCCL, and give the container the "
                "EFA devices. The log then shows 'Using network AWS Libfabric' or 'Libfabric'",
                where="job-script",
            ),
        )
    if "no-verbs" in transport.troubles:
        return (
            "NCCL finds no libibverbs.so",
            "libibverbs",
            Fix(
                "put libibverbs1 and ibverbs-providers (Debian, Ubuntu) or libibverbs and rdma-core (Red Hat) into the "
                "image or onto the host",
                where="host",
                by="user" if any(host.container for host in cluster.hosts) else "admin",
            ),
        )
    contained = any(host.container for host in cluster.hosts)
    if "no-device" in transport.troubles and contained:
        return (
            "NCCL finds no device in the container",
            "container",
            Fix(
                "let the container have the devices: --device=/dev/infiniband --cap-add=IPC_LOCK --ulimit memlock=-1 "
                "with Docker, the cluster's RDMA resource with Kubernetes",
                where="launch-line",
            ),
        )
    cause = "NCCL finds no device that it can open" if "no-device" in transport.troubles else "its log shows no reason"
    return (
        cause,
        "no-device" if "no-device" in transport.troubles else "unknown",
        Fix(
            "see whether every task may open /dev/infiniband/uverbs* and finds libibverbs; with NCCL_NET=IB in a test "
            "job NCCL stops with the reason instead of falling back",
            command="ls -l /dev/infiniband",
            where="host",
        ),
    )


def _why_shared_memory(transport: Transport, host: HostRecord) -> tuple[str, Fix]:
    """The likely cause, and what to do."""
    disabled = _setting(transport, (host,), "NCCL_P2P_DISABLE")
    if disabled is not None and disabled[0].strip().isdigit() and int(disabled[0]):
        then = "NCCL then takes NVLink"
        return f"NCCL_P2P_DISABLE={disabled[0]} forbids it", _leave_out("NCCL_P2P_DISABLE", disabled[1], then)
    level = _setting(transport, (host,), "NCCL_P2P_LEVEL")
    if level is not None and level[0].upper() in ("LOC", "0"):
        then = "NCCL then takes NVLink"
        return f"NCCL_P2P_LEVEL={level[0]} forbids it", _leave_out("NCCL_P2P_LEVEL", level[1], then)
    return (
        "its log shows no reason",
        shared_fixes.CHECK_PEER_ACCESS,
    )
