"""NCCL's transports and the networks below them: what its INFO lines and its warnings mean against what the hosts have.

:mod:`.nccl_info` parses NCCL's own lines. :mod:`.network` covers TCP connections that fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from distcheck import rules
from distcheck.core.model import Fix, Severity
from distcheck.rules import shared_fixes
from distcheck.rules.signatures import Kind

from .context import survived
from .log_probe import LogFinding, log_probe, signature_probe
from .model import Event, Timeline
from .nccl_info import NcclProcess, node_count, processes

#: Interfaces that lead to no other machine, by how their names begin.
_VIRTUAL = ("docker", "lo", "veth", "br-", "virbr", "cni", "tun", "tap", "tailscale", "zt", "wg", "CloudflareWARP")
#: Exceptions that only report the end of another process or of the launcher.
_ECHOES = (
    "ChildFailedError", "SignalException", "DistBackendError", "DistNetworkError", "DistStoreError", "SystemExit",
    "ProcessExitedException", "ProcessRaisedException", "ActorDiedError", "RayTaskError",
)  # fmt: skip
#: Signals that the end of another process does not explain: SIGBUS, SIGKILL, SIGSEGV.
_DEATHS = (-7, -9, -11)
#: What can't be reached is a symptom, and names no cause by itself.
_UNREACHABLE = {"DC403", "DC405", "DC412"}
_SWITCHES = ("NCCL_IB_DISABLE", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE")
#: Settings of a search for errors.
_DEBUGGING = ("NCCL_ALGO", "NCCL_PROTO", "NCCL_CHECK_POINTERS", "NCCL_LAUNCH_MODE", "NCCL_DEBUG_SUBSYS")
_CLOUDS = ("FasTrak", "GPUDirectTCPX", "FastSocket")
_LOCAL_GID = re.compile(r"local ?G[Ii][Dd] ([0-9a-fA-F:.]{2,45})")
_REMOTE_GID = re.compile(r"remote ?G[Ii][Dd]s? ?([0-9a-fA-F:.]{2,45})")
_RETRY = re.compile(r"retrying \d+/\d+")
_MOST_NAMED = 4
#: A line is the end of a text if at most this many lines follow.
_LAST_LINES = 3
_SAME_PLUG_IN = Fix(
    "put the folder of the plug-in on LD_LIBRARY_PATH or into the container, the same on all nodes, in a "
    "version that fits this NCCL. NCCL_NET_PLUGIN=none selects NCCL's own network",
    where="job-script",
)
_INTERFACE = Fix(
    "set NCCL_SOCKET_IFNAME in the job script, to the interface that leads to the other nodes, for every rank. Run "
    "'ip route get ADDRESS-OF-ANOTHER-NODE' to see its name. If nodes use different names, list them with commas",
    command="export NCCL_SOCKET_IFNAME==eth0",
    where="job-script",
)
_GIVE_DEVICES = Fix(
    "let every task open /dev/infiniband and find libibverbs (libibverbs1 and ibverbs-providers in the "
    "image). With Docker: --device=/dev/infiniband --cap-add=IPC_LOCK --ulimit memlock=-1. With Kubernetes: "
    "the RDMA resource of the cluster. NCCL_IB_HCA takes the names of this host's devices",
    command="ls -l /dev/infiniband",
    where="each-task",
)
_RAISE_PORT = Fix(
    "exclude this host from the job. Have an administrator check the cable, the transceiver and the switch "
    "port: phys_state below /sys/class/infiniband/DEVICE/ports/1 and 'ibstat' show the state of the link",
    command="ibstat",
    by="admin",
    where="host",
)
_OPEN_EFA = Fix(
    "let the security group admit all traffic from and to itself, inbound and outbound, since EFA is not IP. Give "
    "each container its own EFA device. Install the same plug-in, libfabric and NCCL on all hosts ('fi_info -p "
    "efa' shows what a host has)",
    by="admin",
    where="host",
)
_USE_EFA = Fix(
    "use an image with libfabric and an aws-ofi-nccl that fits this NCCL. Give the container the EFA devices "
    "(vpc.amazonaws.com/efa in Kubernetes, --device=/dev/infiniband with Docker). Unset FI_PROVIDER, or set "
    "it to efa. The log then shows 'Using network AWS Libfabric' or 'Libfabric'",
    where="job-script",
)


@log_probe(rules.DC113, per_attempt=True)
def debugging_is_off(timeline: Timeline) -> Iterator[LogFinding]:
    """A job that did not fail still writes NCCL's log, or runs with settings of a search for errors."""
    if failed(timeline):
        return
    settings = _settings(timeline)
    names = [name for name in settings if name in (*_DEBUGGING, "CUDA_LAUNCH_BLOCKING", "TORCH_DISTRIBUTED_DEBUG")]
    events = [settings[name] for name in names] or [
        event for event in timeline.of("nccl-info") if "NCCL INFO" in event.text or event.who.pid is not None
    ]
    if not events:
        return
    yield LogFinding(
        events[:_MOST_NAMED] if names else events[:1],
        f"{' and '.join(names)} {'are' if len(names) > 1 else 'is'} set"
        if names
        else "NCCL writes its log at the level INFO on every rank",
        Fix(
            "remove it from the job script, the image or ~/.nccl.conf after debugging; NCCL_DEBUG=WARN keeps "
            "what is worth reading",
            where="job-script",
        ),
        notice=True,
    )


@log_probe(rules.DC114, per_attempt=True)
def transports_are_on(timeline: Timeline) -> Iterator[LogFinding]:
    """A variable takes a way from NCCL; a warning only where the log shows that this way is there."""
    found_processes = processes(timeline)
    several = node_count(found_processes) > 1
    for name, event in _settings(timeline).items():
        value = event.values["value"].rstrip(".")
        off = name in _SWITCHES and value.isdecimal() and int(value) > 0
        network = name == "NCCL_NET" and value.lower() == "socket"
        level = name in ("NCCL_P2P_LEVEL", "NCCL_NET_GDR_LEVEL") and value.upper() in ("LOC", "0")
        if not (off or network or level):
            continue
        if network or name == "NCCL_IB_DISABLE":
            hurts = several and bool(_rdma(found_processes))
        else:
            hurts = name.startswith("NCCL_P2P") and any(process.transport.multicast for process in found_processes)
        yield LogFinding(
            [other for other in timeline.of("nccl-setting", "shell-setting") if other.values["name"] == name],
            f"{name}={value} takes {_transport(name)} from NCCL"
            + (", which this job could use" if hurts and not failed(timeline) else ""),
            Fix(
                f"remove {name} where the job or the image sets it, and measure with and without it. An administrator "
                "decides on what /etc/nccl.conf sets",
                command=f"unset {name}",
                where="job-script",
            ),
            severity=Severity.WARNING if hurts and not failed(timeline) else Severity.INFO,
            role="context",
        )


@log_probe(rules.DC334, per_attempt=True)
def plug_in_fits(timeline: Timeline) -> Iterator[LogFinding]:
    """NCCL's network plug-in is found and can't be used, or only some hosts have it.

    That none is found is normal, and so is a symbol that is missing before an older one fits.
    """
    if broken := [*timeline.of("nccl-plugin-unusable"), *_missing_networks(timeline, "plug-in")]:
        first = broken[0]
        name = first.values.get("network") or first.values.get("plugin")
        yield LogFinding(
            broken,
            f"NCCL can't use the configured network {name}"
            if first.values.get("network")
            else f"NCCL can't use its network plug-in{f' {name}' if name else ''}",
            _SAME_PLUG_IN,
        )
        return
    everyone = [process for process in processes(timeline) if process.transport.network]
    with_one = {process.host for process in everyone if process.transport.plugin}
    without = {process.host for process in everyone} - with_one
    if with_one and without and None not in with_one | without:
        dead = failed(timeline) and not another_cause(timeline)
        lines = [event for process in everyone if process.host in without for event in process.events[:1]]
        yield LogFinding(
            lines,
            f"{_hosts(with_one)} use a network plug-in of NCCL, and {_hosts(without)} none",
            _SAME_PLUG_IN,
            severity=Severity.INFO if failed(timeline) and not dead else None,
            role="cause" if dead else "context",
            rank=-1,
        )
        return
    lines = [event for event in timeline.of("nccl-plugin") if _is_misfit(event, everyone)]
    if lines:
        slow = node_count(everyone) > 1 and not failed(timeline) and any(_on_tcp(process) for process in everyone)
        yield LogFinding(
            lines,
            _misfit(lines[0]),
            _SAME_PLUG_IN,
            severity=None if slow else Severity.INFO,
            role="context",
        )


@log_probe(rules.DC406, per_attempt=True)
def interfaces_reach_the_others(timeline: Timeline) -> Iterator[LogFinding]:
    """NCCL finds no interface, or a job of several hosts fails after its bootstrap used one that reaches no other host.

    A job that works on such an interface, or on one host, is not reported.
    """
    if events := timeline.of("no-interface"):
        named = _settings(timeline).get("NCCL_SOCKET_IFNAME")
        value = named.values["value"].rstrip(".") if named else ""
        yield LogFinding(
            events,
            "NCCL finds no network interface that it may use"
            + (f": NCCL_SOCKET_IFNAME={value} fits none here" if value else ""),
            _INTERFACE,
        )
        return
    everyone = processes(timeline)
    chosen = [process for process in everyone if process.transport.bootstrap]
    hosts = {process.host for process in chosen if process.host} | set(timeline.hosts)
    if not failed(timeline) or max(len(hosts), node_count(everyone)) < 2 or another_cause(timeline):
        return
    wrong = [process for process in chosen if _leads_nowhere(process)]
    wrong = wrong or _same_address(chosen)
    if not wrong:
        yield from _sends_over_a_bridge(timeline, everyone)
        return
    first = wrong[0].transport
    there = sorted({process.host for process in wrong if process.host})
    yield LogFinding(
        [event for process in wrong for event in process.events if event.values.get("interface")],
        f"NCCL's bootstrap used {first.bootstrap} ({first.address}){f' on {_hosts(there)}' if there else ''}, which "
        "leads to no other host",
        _INTERFACE,
    )


@log_probe(rules.DC413, per_attempt=True)
def infiniband_is_used(timeline: Timeline) -> Iterator[LogFinding]:
    """Between hosts, NCCL sends over TCP although the log shows RDMA devices, or does not find those that it should.

    One host needs no network, and hosts that have no such device use TCP rightly.
    """
    if missing := _missing_networks(timeline, "IB"):
        yield LogFinding(
            missing,
            f"NCCL is configured to use {missing[0].values['network']} and finds no such device that it can open",
            _GIVE_DEVICES,
            severity=rules.DC413.severity,
            role="context" if survived(timeline, missing[0]) else "cause",
        )
        return
    everyone = [process for process in processes(timeline) if process.transport.network]
    tcp = [process for process in everyone if _on_tcp(process)]
    evidence = _rdma(everyone)
    if node_count(everyone) < 2 or not tcp or not evidence or _is_switched_off(timeline):
        return
    slow_hosts = {process.host for process in tcp}
    split = {process.host for process in everyone} - slow_hosts
    dead = failed(timeline) and bool(split) and not another_cause(timeline)
    yield LogFinding(
        [event for process in tcp for event in process.events if event.values.get("network")] or tcp[0].events,
        f"NCCL sends over TCP on {_hosts(slow_hosts) or 'all hosts'}, although {evidence}",
        _GIVE_DEVICES,
        severity=Severity.INFO if failed(timeline) and not dead else rules.DC413.severity,
        role="cause" if dead else "context",
        rank=-1,
    )


@log_probe(rules.DC414, per_attempt=True)
def infiniband_ports_are_up(timeline: Timeline) -> Iterator[LogFinding]:
    """A port reports an error and RDMA fails after it, or packets on InfiniBand get no answer.

    A port that came back, in a job that went on, is worth a line.
    """
    ports = [event for event in timeline.of("ib-async-event") if _is_port_error(event)]
    links = list(timeline.of("ib-link-down"))
    lost = _unanswered(timeline)
    if ports or links:
        first = (ports or links)[0]
        broken = timeline.has("ib-adapter-broken")
        # a card that gives up is the end of its process, whether a failure is written or not
        dead = (broken or (failed(timeline) and bool(ports or lost))) and not survived(timeline, first)
        names = sorted({event.values["hca"] for event in (*ports, *links) if event.values.get("hca")})
        yield LogFinding([*ports, *links, *lost], _went_down(names, broken), _RAISE_PORT, notice=not dead)
    elif lost and _layer(timeline) == "IB" and not another_cause(timeline):
        yield LogFinding(lost, f"{_no_answer(lost)} over InfiniBand", _RAISE_PORT)


def _went_down(names: Sequence[str], broken: bool) -> str:
    which = f" {', '.join(names[:_MOST_NAMED])}" if names else ""
    several = "s" * (len(names) > 1)
    if broken:
        return f"InfiniBand adapter{several}{which} reported a catastrophic error"
    return f"port{several}{which} went down" if names else "an InfiniBand port went down"


@log_probe(rules.DC415, per_attempt=True)
def roce_packets_arrive(timeline: Timeline) -> Iterator[LogFinding]:
    """RoCE packets get no answer, or queue pairs can't be connected, and no process died before.

    A dead peer has the same effect on ranks that wait for it. Then its death is the cause.
    """
    lost = _unanswered(timeline)
    if not lost or timeline.has("ib-link-down") or any(map(_is_port_error, timeline.of("ib-async-event"))):
        return
    if _layer(timeline) == "IB" or another_cause(timeline, own=("ib-modify-qp",)):
        return
    index = _settings(timeline).get("NCCL_IB_GID_INDEX")
    local = _gid(lost, _LOCAL_GID)
    yield LogFinding(
        lost,
        _no_answer(lost)
        + (f" from GID {local}" if local else "")
        + (f" (NCCL_IB_GID_INDEX={index.values['value'].rstrip('.')})" if index else ""),
        Fix(
            "unset NCCL_IB_GID_INDEX with NCCL 2.21 and newer. With an older one set it on all nodes to the RoCE "
            "v2 entry with the IPv4 address: 'show_gids' lists it (often 3). Then test the pair of hosts with "
            "ib_write_bw -R: a switch, a route between rails or a port can be the cause too",
            command="show_gids",
            where="host",
        ),
        evidence={"local_gid": local, "remote_gid": _gid(lost, _REMOTE_GID)},
    )


@log_probe(rules.DC416, per_attempt=True)
def network_cards_read_gpu_memory(timeline: Timeline) -> Iterator[LogFinding]:
    """RDMA is used between hosts without GPUDirect, or registering GPU memory with the card fails."""
    fix = shared_fixes.LOAD_PEERMEM
    if events := timeline.of("ib-gpu-memory"):
        yield LogFinding(
            events,
            f"the network card can't register GPU memory ({events[0].values['why']})",
            fix._replace(text=f"{fix.text}; NCCL_NET_GDR_LEVEL=LOC in one run confirms it"),
        )
        return
    refused = [event for event in timeline.of("ib-completion") if event.values.get("status") == "4"]
    if refused and not another_cause(timeline):
        yield LogFinding(
            refused,
            "the network card was refused memory that had been registered with it (status 4, local protection error)",
            fix._replace(text=f"{fix.text}; NCCL_NET_GDR_LEVEL=LOC in one run confirms it"),
        )
        return
    everyone = processes(timeline)
    off = [process for process in everyone if process.transport.gdr is False and not _on_tcp(process)]
    if not off or (node_count(everyone) < 2 and not any(process.transport.count("NET") for process in off)):
        return
    on = {process.host for process in everyone if process.transport.gdr}
    there = {process.host for process in off}
    # a channel without it may lie far from its card, which is normal
    disabled = [event for process in off for event in process.events if event.values.get("state") == "Disabled"]
    yield LogFinding(
        disabled or off[0].events,
        f"GPUDirect RDMA is off on {_hosts(there) or 'these hosts'}"
        + (f", and on at {_hosts(on - there)}" if on - there else ""),
        fix,
        severity=None if disabled and not failed(timeline) else Severity.INFO,
        role="context",
        rank=-1,
    )


@log_probe(rules.DC417, per_attempt=True)
def efa_is_used(timeline: Timeline) -> Iterator[LogFinding]:
    """The plug-in for EFA fails and NCCL sends over TCP instead or ends; or EFA's packets get no answer.

    On machines without EFA the plug-in of an image fails in the same words, and nothing is wrong.
    """
    if missing := _missing_networks(timeline, "EFA"):
        yield LogFinding(missing, "NCCL must use EFA's plug-in, which is missing or unusable", _USE_EFA)
    elif broken := timeline.of("efa-endpoint"):
        yield LogFinding(
            broken,
            f"EFA's plug-in can't use the device or reach the peer: {broken[0].values['what']}",
            _OPEN_EFA,
        )
    elif lost := [event for event in timeline.of("efa-unreachable") if "slingshot" not in event.values]:
        if another_cause(timeline):
            return
        yield LogFinding(
            lost,
            "EFA's packets get no answer from another node"
            if any("failed" not in event.values for event in lost)
            else "EFA could not complete a transfer to another node",
            Fix(
                "let the security group of the nodes allow all traffic from and to itself, inbound and outbound. "
                "Use the same libfabric and aws-ofi-nccl on all nodes. If a rank there exited, read its own log",
                by="admin",
                where="host",
            ),
        )
    elif unusable := timeline.of("efa-unusable"):
        everyone = [process for process in processes(timeline) if process.transport.network]
        if not everyone and failed(timeline) and not another_cause(timeline):
            severity, part = Severity.ERROR, "cause"
        elif any(_on_tcp(process) for process in everyone) and (
            # a channel over the network leads to another host, also where only one of them is in the text
            node_count(everyone) > 1 or any(process.transport.count("NET") for process in everyone)
        ):
            severity, part = (Severity.INFO if failed(timeline) else Severity.WARNING), "context"
        elif not everyone and not failed(timeline) and not timeline.went_on:
            # the text ends before NCCL takes another network, or before the job dies
            ends = timeline.sources[unusable[-1].source].lines - unusable[-1].line < _LAST_LINES
            severity, part = Severity.WARNING, "cause" if ends else "context"
        else:
            return
        yield LogFinding(
            unusable,
            "the plug-in for EFA can't be used" + (", and NCCL sends over TCP between the nodes" if everyone else ""),
            _USE_EFA,
            severity=severity,
            role=part,
        )


@log_probe(rules.DC418, per_attempt=True)
def vendor_plug_ins_are_complete(timeline: Timeline) -> Iterator[LogFinding]:
    """A cloud's plug-in complains of its settings or is not found; or a topology file is named that is not there."""
    if events := [*timeline.of("vendor-plugin"), *_missing_networks(timeline, "cloud")]:
        name = events[0].values.get("plugin") or events[0].values.get("network")
        yield LogFinding(
            events,
            f"the plug-in {name} is not complete here",
            shared_fixes.SOURCE_THE_PLUG_IN,
        )
    elif files := timeline.of("topology-file"):
        yield LogFinding(
            files,
            f"NCCL_TOPO_FILE names {files[0].values['file']}, which can't be opened",
            shared_fixes.MOUNT_THE_TOPOLOGY,
            severity=Severity.INFO if failed(timeline) else None,
            role="context",
        )


@log_probe(rules.DC420, per_attempt=True)
def nvlink_fabric_is_ready(timeline: Timeline) -> Iterator[LogFinding]:
    """NVLink SHARP can't be set up, or CUDA does not permit sharing memory over the fabric."""
    if events := timeline.of("nvls-failure"):
        yield LogFinding(
            events,
            f"NVLink SHARP (NVLS) can't be set up: {events[0].values['why']}",
            Fix(
                "run once with NVLink SHARP off. If that works, have an administrator check the fabric manager "
                "and the NVSwitches: the version of the driver, and no GPU half reset",
                command="export NCCL_NVLS_ENABLE=0",
                where="job-script",
            ),
        )
    elif events := timeline.of("imex-permission"):
        yield LogFinding(
            events,
            "CUDA does not permit sharing GPU memory over the NVLink fabric: this process has no IMEX channel",
            shared_fixes.START_IMEX,
        )
    elif events := timeline.of("cumem-host"):
        yield LogFinding(
            events,
            "this container may not choose NUMA nodes, so that NCCL uses /dev/shm instead of CUDA's host memory",
            Fix("start the container with --cap-add=SYS_NICE", where="launch-line"),
            notice=True,
        )


@log_probe(rules.DC503, per_attempt=True)
def versions_are_equal(timeline: Timeline) -> Iterator[LogFinding]:
    """NCCL reports different versions or messages of another length, or the ranks' lines show different versions."""
    fix = Fix(
        "use one image, or one environment on a shared folder, for all nodes, with the same torch and NCCL. "
        "Another libnccl.so.2 in LD_LIBRARY_PATH makes one host differ",
        command="python -c 'import torch; print(torch.__version__, torch.cuda.nccl.version())'",
        where="each-task",
    )
    if events := timeline.of("nccl-versions"):
        first = events[0].values
        yield LogFinding(
            events,
            f"rank {first['rank']} has NCCL {_version(first['version'])} and rank {first['other']} "
            f"{_version(first['expected'])}",
            fix,
        )
        return
    versions: dict[str, list[NcclProcess]] = {}
    for process in processes(timeline):
        if process.transport.version:
            versions.setdefault(process.transport.version, []).append(process)
    versions_text = " and ".join(
        f"{version} on {_hosts({process.host for process in found_}) or 'others'}"
        for version, found_ in sorted(versions.items())
    )
    if events := timeline.of("nccl-truncated"):
        if another_cause(timeline, own=("nccl-truncated",)):
            return
        yield LogFinding(
            events,
            f"NCCL got a message of another length or kind ({events[0].values['got']} for "
            f"{events[0].values['wanted']}) than "
            + (
                f"it expected: it is {versions_text}"
                if len(versions) > 1
                else "it expected, as from another version of it"
            ),
            fix,
        )
    elif len(versions) > 1:
        dead = failed(timeline) and not another_cause(timeline)
        odd = min(versions.values(), key=len)
        yield LogFinding(
            [event for process in odd for event in process.events if event.values.get("version")],
            f"NCCL differs between processes: {versions_text}",
            fix,
            notice=not dead,
        )


@signature_probe(rules.DC506, "shm-attach", per_attempt=True)
def nccl_distinguishes_hosts(timeline: Timeline, events: Sequence[Event]) -> LogFinding | None:
    """Shared memory of a rank that counts as one of the same host is not there; a full /dev/shm is another rule."""
    if any("DC320" in event.codes for event in timeline.events):
        return None
    return LogFinding(
        events,
        f"{events[0].values['segment']} of another rank is not in this process's /dev/shm: NCCL takes two containers "
        "for one host",
        Fix(
            "let the containers share it (--ipc=host, or one volume at /dev/shm). Or give each its own host name "
            "(--hostname, or its own value of NCCL_HOSTID)",
            where="launch-line",
        ),
    )


@log_probe(rules.DC516, per_attempt=True)
def transport_is_the_fastest(timeline: Timeline) -> Iterator[LogFinding]:
    """Ranks use shared memory although their GPUs have NVLink. TCP between hosts is reported as information."""
    everyone = processes(timeline)
    shared = [process for process in everyone if process.transport.count("SHM") and process.transport.multicast]
    off = _settings(timeline).get("NCCL_P2P_DISABLE")
    if shared and off is None:
        yield LogFinding(
            [event for process in shared for event in process.events if event.values.get("via")],
            "ranks of one host talk through shared memory, although their GPUs have NVLink",
            shared_fixes.CHECK_PEER_ACCESS,
            severity=Severity.INFO if failed(timeline) else None,
            role="context",
        )
    tcp = [process for process in everyone if _on_tcp(process)]
    nodes = node_count(everyone)
    if tcp and nodes > 1 and not _rdma(everyone) and not timeline.has("efa-unusable"):
        yield LogFinding(
            [event for process in tcp for event in process.events if event.values.get("network")] or tcp[0].events,
            f"NCCL sends over TCP between {nodes} hosts"
            + (f" ({', '.join(tcp[0].transport.interfaces[:_MOST_NAMED])})" if tcp[0].transport.interfaces else ""),
            Fix(
                "nothing, if the hosts have no InfiniBand, RoCE or EFA; else see whether every task may open "
                "/dev/infiniband/uverbs* and finds libibverbs: with NCCL_NET=IB in a test job NCCL stops with the "
                "reason",
                command="ls -l /dev/infiniband",
                where="host",
            ),
            notice=True,
        )


def failed(timeline: Timeline) -> bool:
    """Whether the log shows that a process of the job failed, and the job did not continue."""
    return not timeline.went_on and (
        bool(timeline.workers)
        or any(event.kind <= Kind.TABLE and event.signature != "error-line" for event in timeline.events)
    )


def another_cause(timeline: Timeline, *, own: Sequence[str] = ()) -> bool:
    """Whether the log shows why a process died, apart from the lines of these signatures.

    A named cause, an exception that is not about other ranks, or a death by a signal that survivors don't receive.
    """
    return (
        any(
            event.kind is Kind.CAUSE and event.signature not in own and not _UNREACHABLE & set(event.codes)
            for event in timeline.events
        )
        or any(worker.exitcode in _DEATHS for worker in timeline.workers)
        or any(_is_own_exception(event) for event in timeline.of("exception"))
    )


def _is_own_exception(event: Event) -> bool:
    name = event.traceback.exception if event.traceback else ""
    return not (not name or name.endswith(_ECHOES) or "NCCL" in event.text or "nccl" in event.text)


def _settings(timeline: Timeline) -> dict[str, Event]:
    """Return the first line of each variable that the log shows as set."""
    firsts: dict[str, Event] = {}
    for event in timeline.of("nccl-setting", "shell-setting"):
        firsts.setdefault(event.values["name"], event)
    return firsts


def _is_switched_off(timeline: Timeline) -> bool:
    settings = _settings(timeline)
    disabled = settings.get("NCCL_IB_DISABLE")
    network = settings.get("NCCL_NET")
    return bool(
        (disabled and disabled.values["value"].rstrip(".") not in ("0", ""))
        or (network and network.values["value"].rstrip(".").lower() == "socket")
    )


def _transport(name: str) -> str:
    if "IB" in name or name == "NCCL_NET":
        return "InfiniBand and RoCE"
    if "SHM" in name:
        return "shared memory"
    return "GPUDirect RDMA" if "GDR" in name else "the direct way between GPUs (NVLink, PCIe)"


def _on_tcp(process: NcclProcess) -> bool:
    return process.transport.on_tcp


def _rdma(everyone: Iterable[NcclProcess]) -> str:
    """What in the log shows RDMA devices: a clause for a sentence; empty where nothing does."""
    for process in everyone:
        transport = process.transport
        names = [name for name in (*transport.interfaces, transport.bootstrap) if name.startswith("ib")]
        if hca := transport.settings.get("NCCL_IB_HCA"):
            return f"NCCL_IB_HCA names {hca}"
        if any("NET/IB" in event.text and ": Using [" in event.text for event in process.events):
            return f"{process.host or 'a host'} has RDMA devices"
        if names and _on_tcp(process):
            return f"{process.host or 'a host'} has InfiniBand ({names[0]})"
    return ""


def _missing_networks(timeline: Timeline, kind: str) -> list[Event]:
    return [event for event in timeline.of("nccl-network-missing") if _network_kind(event.values["network"]) == kind]


def _network_kind(name: str) -> str:
    if name.upper() == "IB" or name.startswith("IBext"):
        return "IB"
    if "Libfabric" in name or name.upper() in ("OFI", "EFA"):
        return "EFA"
    return "cloud" if name.startswith(_CLOUDS) else "plug-in"


def _is_misfit(event: Event, everyone: Sequence[NcclProcess]) -> bool:
    """Whether a plug-in's line reports more than a missing plug-in or a fallback to an older interface."""
    used = {process.transport.plugin for process in everyone if event in process.events or process.who == event.who}
    values = event.values
    if values.get("wanted"):
        return values.get("kind") == "Net" and bool(used) and not any(used) and _is_built_in(event, everyone)
    plugin = values.get("plugin", "").rsplit("/", 1)[-1]
    if values.get("missing"):
        return values["missing"].rsplit("/", 1)[-1] != plugin
    named = [process.transport.settings.get("NCCL_NET_PLUGIN", "") for process in everyone]
    return bool(plugin) and any(name not in ("", "none") and name in event.text for name in named)


def _is_built_in(event: Event, everyone: Sequence[NcclProcess]) -> bool:
    return all(process.transport.network in ("Socket", "IB") for process in everyone if process.who == event.who)


def _misfit(event: Event) -> str:
    values = event.values
    if values.get("wanted"):
        return f"a network plug-in of NCCL is found that is too old: it has no interface {values['wanted']}"
    if values.get("missing"):
        return f"NCCL's network plug-in {values['plugin']} can't be loaded: {values['missing']} is missing"
    return f"NCCL does not find the network plug-in {values['plugin']} that NCCL_NET_PLUGIN names"


def _leads_nowhere(process: NcclProcess) -> bool:
    transport = process.transport
    return transport.bootstrap.startswith(_VIRTUAL) or transport.address.startswith(("127.", "fe80", "169.254."))


def _sends_over_a_bridge(timeline: Timeline, everyone: Sequence[NcclProcess]) -> Iterator[LogFinding]:
    """A peer could not be reached at an address that NCCL's own list gives to a bridge or a link-local interface."""
    tried = timeline.of("nccl-connect", "nccl-connect-tried")
    for process in everyone:
        for address, name in process.transport.addresses.items():
            missed = [event for event in tried if event.values.get("address") == address]
            if missed and (name.startswith(_VIRTUAL) or address.startswith(("fe80", "169.254."))):
                yield LogFinding(
                    [*(event for event in process.events if address in event.text), *missed],
                    f"NCCL sends over {name} ({address}){f' on {process.host}' if process.host else ''}, which leads "
                    "to no other host",
                    _INTERFACE,
                    rank=-1,
                )
                return


def _same_address(chosen: Sequence[NcclProcess]) -> list[NcclProcess]:
    """Return processes of different hosts with the same address, which then reaches no other host."""
    hosts: dict[str, dict[str, NcclProcess]] = {}
    for process in chosen:
        if process.host and process.transport.address:
            hosts.setdefault(process.transport.address, {}).setdefault(process.host, process)
    return next((list(found_.values()) for found_ in hosts.values() if len(found_) > 1), [])


def _is_port_error(event: Event) -> bool:
    text = event.values.get("event") or ""
    return "port error" in text or "fatal" in text or "catastrophic" in text


def _unanswered(timeline: Timeline) -> list[Event]:
    """Packets that were repeated in vain (IBV_WC_RETRY_EXC_ERR), and queue pairs that could not be connected."""
    return [
        event
        for event in timeline.of("ib-completion", "ib-modify-qp")
        if event.values.get("status") == "12" or (event.signature == "ib-modify-qp" and not _RETRY.search(event.text))
    ]


def _layer(timeline: Timeline) -> str:
    """Return ``IB`` or ``RoCE`` where NCCL lists its devices. Only RoCE prints GIDs."""
    texts = [event.text for event in timeline.of("nccl-info") if "NET/IB" in event.text or "IBext" in event.text]
    if any("/RoCE" in text for text in texts) or _gid(_unanswered(timeline), _LOCAL_GID):
        return "RoCE"
    return "IB" if any("/IB " in text or text.endswith("/IB") for text in texts) else ""


def _no_answer(lost: Sequence[Event]) -> str:
    first = lost[0]
    if first.signature == "ib-modify-qp":
        return f"RDMA queue pairs can't be connected ({first.values['why'].strip()})"
    peers = list(
        dict.fromkeys(event.values["address"].partition("<")[0] for event in lost if event.values.get("address"))
    )
    to = f" to {', '.join(peers[:_MOST_NAMED])}" if peers else ""
    return f"RDMA packets{to} get no answer (status 12)"


def _gid(lost: Iterable[Event], pattern: re.Pattern[str]) -> str:
    return next((match[1] for event in lost if (match := pattern.search(event.text))), "")


def _version(code: str) -> str:
    """``22703`` as NCCL counts: ``2.27.3``."""
    number = int(code)
    return f"{number // 10000}.{number % 10000 // 100}.{number % 100}"


def _hosts(names: Iterable[str | None]) -> str:
    """A few hosts by name, many by number."""
    known = sorted(name for name in names if name)
    return ", ".join(known) if len(known) <= _MOST_NAMED else f"{len(known)} hosts ({known[0]} …)"
