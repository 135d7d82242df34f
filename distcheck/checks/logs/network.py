"""Ports, names and addresses of the rendezvous, and the connections between ranks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from distcheck import rules
from distcheck.core.model import Fix
from distcheck.rules import shared_fixes
from distcheck.rules.signatures import Kind

from .context import (
    came_through,
    each_line_once,
    failed_elsewhere,
    grouped,
    hosts_of,
    in_a_command,
    is_loopback,
    is_of_launcher,
    on_one_host,
    ranks_text,
    value_of,
)
from .joining import two_servers
from .launcher import ranks_were_started_once
from .log_probe import LogFinding, log_probe
from .model import Event, Timeline

#: Code of torch that makes or joins the store of the rendezvous.
_RENDEZVOUS = ("torch/distributed/rendezvous", "torch/distributed/elastic", "TCPStore(")
#: The bytes ``HTTP`` read as a number: a client of the store reads them from a web server.
_HTTP = "1347703880"
_MISSED = ("client-timeout", "client-failed", "connect-failed", "rendezvous-connection")
_GLOO = ("gloo-connect", "gloo-tried")
_NCCL = ("nccl-connect", "nccl-connect-tried")
_MPI = "mpi-connect"
_FAMILY = (*_MISSED, *_GLOO, *_NCCL, _MPI, "client-tried", "name-unresolved", "host-not-found", "name-exception")
#: How Rust writes an error of the system: it is of a library of that language.
_OF_RUST = "(os error "
#: An IPv6 address as it stands before a port; a list of nodes has no colon.
_ADDRESS_IN_BRACKETS = re.compile(r"\[([0-9A-Fa-f:.]{0,40}:[0-9A-Fa-f:.]{0,40})(?:%\w+)?\]")
#: Docker's bridge; its first address is the host's own end.
_BRIDGE = "172.17."
_BRIDGES_HOST = "172.17.0.1"
#: So many refusals or time-outs of NCCL, each tried again, and no end of the job but silence.
_MANY_TRIES = 5
#: A client of the store that keeps trying logs it this often before a master that is away is reported.
_FEW_TRIES = 3


# the port


@log_probe(rules.DC401, at_first_failed=True)
def port_is_taken(timeline: Timeline) -> Iterator[LogFinding]:
    """A store of torch could not listen on its port, because another process does.

    Ignored: a port of the user's own server; only a traceback or text of torch's rendezvous counts. Next to another
    cause: several launchers that want one port (DC106).
    """
    taken = [*timeline.of("port-taken"), *_stores_in_use(timeline)]
    tried = timeline.of("bind-tried")
    if not taken and timeline.has("listen-failed") and tried:
        taken = list(timeline.of("listen-failed"))
    by_port: dict[str | None, list[Event]] = {}
    for (port,), events in grouped(each_line_once(taken), "port"):
        # not every line about the same port has its number
        by_port.setdefault(port or value_of(tried, "port"), []).extend(events)
    for number, events in by_port.items():
        which = f"port {number}" if number else "the port of the rendezvous"
        yield LogFinding(
            events,
            f"{which} is taken: another process listens there, and the store of this job can't",
            _another_port(number),
            notice=any(ranks_were_started_once(timeline)) or bool(two_servers(timeline)),
        )
    for event in timeline.of("port-of-another")[:1]:
        whose = "a web server or a proxy" if event.values.get("got") == _HTTP else "a program that is no store of torch"
        yield LogFinding(
            timeline.of("port-of-another"),
            f"{whose} answers on the port of the rendezvous",
            _another_port(None),
        )


def _stores_in_use(timeline: Timeline) -> Iterator[Event]:
    """Return lines that report only an address in use, where they are surely from torch's store.

    ``RuntimeError`` is torch's: Python's own sockets raise OSError.
    """
    for event in timeline.of("address-in-use"):
        text = event.text
        if (
            (text.startswith("RuntimeError: Address already in use") and _OF_RUST not in text)
            or came_through(event, *_RENDEZVOUS)
            or any(word in text for word in ("c10d", "TCPStore", "rendezvous", "MASTER_PORT"))
        ):
            yield event


def _another_port(number: str | None) -> Fix:
    show = f"ss -ltnp 'sport = :{number}'" if number and number.isdecimal() else None
    shown = f"; this shows on rank 0's host who holds {number}" if show else ""
    return Fix(
        "take another port, the same on all nodes (--master-port, --rdzv-endpoint or MASTER_PORT; on one machine "
        f"--standalone finds one by itself), or end the run that holds it{shown}",
        command=show,
        where="launch-line",
    )


# the master


@log_probe(rules.DC403, rules.DC404, rules.DC408, rules.DC411, at_first_failed=True)
def master_was_not_reached(timeline: Timeline) -> Iterator[LogFinding]:
    """Ranks or agents did not reach the rendezvous, and gave up.

    Its name did not resolve (DC404); no node took itself for the host of the rendezvous (DC408); the address belongs
    to a container's own network (DC411); else nothing answered there (DC403). Left alone: tries that succeeded later,
    and a master that had died of something else before.
    """
    missed = [event for event in each_line_once(timeline.of(*_MISSED)) if _gave_up(timeline, event)]
    if not missed:
        missed = _still_trying(timeline)
    if not missed or timeline.went_on:
        return
    if (
        all(event.signature == "rendezvous-connection" for event in missed)
        and timeline.has("rendezvous-timeout")
        and timeline.has("store-lost", "peer-lost")
    ):
        # it was reached, and left when its own time was over: another rank did not come
        return
    unnamed = [event for event in missed if not event.values.get("host")]
    for (host, port), events in list(grouped([event for event in missed if event.values.get("host")], "host", "port")):
        # RendezvousConnectionError names no address; it stands with the time-out that it comes from
        yield from _judge_master(timeline, host, port, events, unnamed)
    if len(unnamed) == len(missed):
        tried = value_of(timeline.of("client-tried"), "host") or ""
        yield from _judge_master(timeline, tried, value_of(timeline.of("client-tried"), "port") or "", unnamed, unnamed)


def _gave_up(timeline: Timeline, event: Event) -> bool:
    """Return whether it is the last try, and about torch's rendezvous at all."""
    if event.signature == "connect-failed":
        return event.text.startswith("RuntimeError:") or came_through(event, *_RENDEZVOUS)
    lines = {(retry.source, retry.line) for retry in timeline.of("client-retry")}
    return (event.source, event.line) not in lines


def _still_trying(timeline: Timeline) -> list[Event]:
    """A log that ends while a client still tries."""
    tries = timeline.of("client-tried")
    unanswered = [event for event in tries if event.values.get("code") not in ("97", "10049")]
    number = sum(1 + event.repeated for event in unanswered)
    if number < _FEW_TRIES or failed_elsewhere(timeline, unanswered, _FAMILY) is not None:
        return []
    last = {source: lines.lines for source, lines in enumerate(timeline.sources)}
    ends = [event for event in unanswered if last[event.source] - event.line <= _FEW_TRIES * 4 + event.repeated * 2]
    return list(unanswered) if ends else []


def _judge_master(
    timeline: Timeline, host: str, port: str, events: list[Event], rendezvous: list[Event]
) -> Iterator[LogFinding]:
    lookups = [event for event in timeline.of("name-unresolved") if event.values.get("host") == host]
    place = f"{host}:{port}" if host else "the address of the rendezvous"
    dead = failed_elsewhere(timeline, events, _FAMILY)
    role = "cause" if dead is None else "timeout"
    if host.endswith("docker.internal"):
        yield _of_docker_desktop(timeline, host, events, role)
    elif any(_means_unknown(event) for event in lookups):
        yield _unresolved(timeline, host, [*events, *lookups], lookups[0], role)
    elif _is_containers_own(host) and not on_one_host(timeline):
        yield _in_a_container(timeline, host, events, role)
    elif _is_nobodys(timeline, host, rendezvous):
        yield LogFinding(
            [*events, *rendezvous],
            f"all nodes, the endpoint's own host among them, gave up on {place}: none of them took itself for the host "
            "of the rendezvous, so no process listens there",
            Fix(
                "add --rdzv-conf=is_host=1 to the launch on the endpoint's host and --rdzv-conf=is_host=0 on all "
                "others. Or use the name that this host has for itself (hostname) as the endpoint",
                where="launch-line",
            ),
            role=role,
            rank=-1,
            rule=rules.DC408,
        )
    else:
        yield _unreached(timeline, host, port, events, role)


def _unreached(timeline: Timeline, host: str, port: str, events: list[Event], role: str) -> LogFinding:
    tries = [event for event in (*timeline.of("client-tried"), *events) if event.values.get("host") in (host, "", None)]
    why = value_of(tries, "why") or _why_in(events)
    waited = value_of(events, "waited")
    place = f"{host}:{port}" if host else "the address of the rendezvous"
    message = f"nothing answered at {place}" + (f" within {waited}" if waited else "")
    if is_loopback(host):
        fix = Fix(
            "see that the process of rank 0 runs on this host and gets RANK=0; on several nodes give all of them the "
            "first node's address (MASTER_ADDR, --master-addr, --rdzv-endpoint)",
            where="launch-line",
        )
        message += ": no process of this host serves the store there"
    elif "refused" in why:
        fix = shared_fixes.START_ON_THE_FIRST_NODE
        message += ": the connection was refused, so nothing listens on that port, or a firewall rejects it"
    else:
        fix = _open_port(host, port)
        message += f": {why}" if why else ": the first node is not up, the address is wrong, or a firewall drops it"
    who = ranks_text(events)
    return LogFinding(
        events,
        f"{message}; {who} gave up" if who else message,
        fix,
        role=role,
        rank=-1 if len({event.who.rank for event in events}) > 1 else None,
        evidence={"host": host, "port": port},
        rule=rules.DC403,
    )


def _why_in(events: Sequence[Event]) -> str:
    known = ("No route to host", "Connection refused", "Network is unreachable", "Connection timed out")
    return next((why for event in events for why in known if why in event.text), "")


def _open_port(host: str, port: str) -> Fix:
    address = in_a_command(host)
    opened = f"port {port}" if port else "the port of the rendezvous"
    return Fix(
        "check that the address is that of the first node in the network of all nodes, and that the launch runs "
        f"there. Have {opened} opened between the nodes{'; this tries it from here' if address and port else ''}",
        command=f"nc -vz -w 3 {address} {port}" if address and port else None,
        where="host",
    )


def _is_nobodys(timeline: Timeline, host: str, rendezvous: list[Event]) -> bool:
    """Whether every node failed to find the store of torchrun's rendezvous, that of the endpoint too.

    An address can't be compared with the names of hosts; then it is enough that whatever wrote anything failed so.
    """
    if timeline.has("store-host"):
        return False
    nodes = {(event.source, event.who.host, event.who.task) for event in rendezvous}
    if len(nodes) < 2:
        return False
    names = {event.who.host for event in rendezvous if event.who.host}
    bare = host.split(".")[0]
    if any(name.split(".")[0] == bare for name in names) or any(event.who.task == 0 for event in rendezvous):
        return True
    is_address = ":" in host or host.replace(".", "").isdecimal()
    sources = {event.source for event in rendezvous}
    return is_address and names >= hosts_of(timeline) and len(sources) == len(timeline.sources)


# names


@log_probe(rules.DC404, at_first_failed=True)
def name_was_not_found(timeline: Timeline) -> Iterator[LogFinding]:
    """The name of the rendezvous host did not resolve, and the rank gave up or made no progress.

    Left alone: names that resolved at a later try, and look-ups of other programs (a download's, a tracker's).
    """
    ssh = timeline.of("ssh-name-unresolved")
    if ssh and _ended_at_ssh(timeline):
        host = ssh[0].values["host"]
        yield LogFinding(
            ssh,
            f"ssh can start no process on {host}: that name does not resolve here ({ssh[0].values['why'].strip()})",
            Fix(
                "in the hostfile, or the hosts of the launch command, write addresses or names that this host resolves",
                command=f"getent hosts {host}",
                where="launch-line",
            ),
            rank=-1,
            evidence={"name": host},
        )
        return
    lost = [*timeline.of("host-not-found"), *(event for event in timeline.of("name-exception") if _is_ours(event))]
    if lost:
        if not timeline.went_on:
            yield _unresolved(timeline, "", each_line_once(lost), lost[0], "cause")
        return
    if any(_gave_up(timeline, event) for event in timeline.of(*_MISSED)):
        return  # reported with the unreachable master
    for (host,), events in grouped(
        [event for event in timeline.of("name-unresolved") if _means_unknown(event)], "host"
    ):
        number = sum(1 + event.repeated for event in events)
        if (
            number >= _FEW_TRIES
            and failed_elsewhere(timeline, events, _FAMILY) is None
            and _is_last_word(timeline, events)
        ):
            yield _unresolved(timeline, host, events, events[0], "cause")


def _ended_at_ssh(timeline: Timeline) -> bool:
    """Whether a launcher started no process by ssh: nothing else failed, and no copy used ssh."""
    others = (event for event in timeline.events if event.kind <= Kind.FAILURE)
    return not (
        timeline.went_on
        or timeline.has("ssh-of-a-copy")
        or any(event.signature != "ssh-refused" and not is_of_launcher(event) for event in others)
    )


def _is_ours(event: Event) -> bool:
    return came_through(event, *_RENDEZVOUS, "MASTER_ADDR", "master_addr")


def _means_unknown(event: Event) -> bool:
    """Whether a lookup failed because the name is unknown, not for lack of an address of that family."""
    return event.values.get("code") not in ("-9", "-97", "-5")


def _is_last_word(timeline: Timeline, events: Sequence[Event]) -> bool:
    """Whether nothing but more of the same was written after these."""
    last = events[-1]
    return timeline.sources[last.source].lines - last.line <= _FEW_TRIES * 4 + last.repeated * 2


def _unresolved(timeline: Timeline, host: str, events: list[Event], lookup: Event, role: str) -> LogFinding:
    why = (lookup.values.get("why") or "it is not known").strip()
    name = f"the name {host!r}" if host else "the name of the first node"
    who = ranks_text(events)
    return LogFinding(
        events,
        f"{name} does not resolve{f' on {who}' if who else ''} ({why})",
        _resolve(host, why),
        role=role,
        evidence={"name": host, "answer": why},
        rule=rules.DC404,
    )


def _of_docker_desktop(timeline: Timeline, host: str, events: list[Event], role: str) -> LogFinding:
    return LogFinding(
        events,
        f"this computer's own name leads to {host}, which the hosts file has from Docker Desktop and which is none of "
        "its addresses now",
        Fix(
            "on one machine start torchrun with --local-addr=127.0.0.1 (without torchrun: MASTER_ADDR=127.0.0.1); on "
            "several with the address that the other nodes know; or take the line out of the hosts file",
            command="--local-addr=127.0.0.1",
            where="launch-line",
        ),
        role=role,
        rank=-1,
        evidence={"name": host},
        rule=rules.DC404,
    )


def _resolve(host: str, why: str) -> Fix:
    if address := _ADDRESS_IN_BRACKETS.fullmatch(host):
        return Fix(
            f"write the address without brackets: {address[1]}",
            command=f"export MASTER_ADDR={address[1]}",
            where="job-script",
        )
    if "[" in host or "," in host:
        return Fix(
            "that is a list of nodes, and no name of one: give MASTER_ADDR the first of them",
            command=f"export MASTER_ADDR={shared_fixes.FIRST_HOST_OF_SLURM}",
            where="job-script",
        )
    if "Temporary failure" in why:
        return Fix(
            "give the address of that host in place of its name: the name server of this host does not answer "
            "(/etc/resolv.conf names it)",
            where="launch-line",
        )
    if host.endswith(".local"):
        return Fix(
            "give MASTER_ADDR, or --local-addr, the value 127.0.0.1: a .local name resolves only in a network that "
            "knows this Mac",
            where="launch-line",
        )
    if "-master-" in host or "-worker-" in host or ".svc" in host:
        return shared_fixes.wait_for_name(host)
    node = f"the node that calls itself {host}" if host else "the first node"
    name = in_a_command(host)
    return Fix(
        f"start torchrun on {node} with --local-addr=ADDRESS, give MASTER_ADDR or --master-addr its address, or have "
        "the name added to /etc/hosts or DNS of all nodes",
        command=f"getent hosts {name}" if name else None,
        where="launch-line",
    )


@log_probe(rules.DC409, at_first_failed=True)
def ipv6_is_noise(timeline: Timeline) -> Iterator[LogFinding]:
    """Warnings of a host without IPv6, or without names for addresses: harmless as long as IPv4 works."""
    events = [
        *timeline.of("ipv6-noise", "reverse-name-noise"),
        *(event for event in timeline.of("name-unresolved") if not _means_unknown(event)),
    ]
    if not events:
        return
    of_names = all(event.signature == "reverse-name-noise" for event in events)
    what = "an address has no name" if of_names else "this host has no working IPv6"
    yield LogFinding(
        events,
        f"torch warns that {what}, which is harmless if the rendezvous uses IPv4",
        Fix("none is needed; an IPv4 address in place of the name spares you the warning", where="launch-line"),
        notice=True,
    )


# connections between ranks


@log_probe(rules.DC405, rules.DC411, rules.DC412, at_first_failed=True)
def ranks_did_not_connect(timeline: Timeline) -> Iterator[LogFinding]:
    """Ranks completed the rendezvous, then could not connect to each other on the ports that NCCL, gloo and MPI choose.

    The address shows why: loopback is what a peer's own host name resolves to (DC405), Docker's bridge leads nowhere
    else (DC411); any other is closed or wrong (DC412). Left alone: tries that succeeded, a refusal by a peer that had
    failed before, and loopback on a single host.
    """
    failed = each_line_once(timeline.of("gloo-connect", "nccl-connect", _MPI))
    failed = failed or [event for event in timeline.of("gloo-tried") if event.values.get("again") == "0"]
    if not failed and not timeline.has("exception"):
        failed = _tries_without_end(timeline)
    if not failed or timeline.went_on:
        return
    dead = failed_elsewhere(timeline, failed, _FAMILY)
    if dead is not None:
        return  # its listener went with it
    addresses = [event.values.get("address") or "" for event in failed]
    loopback = [event for event, address in zip(failed, addresses, strict=True) if address and is_loopback(address)]
    bridge = [event for event, address in zip(failed, addresses, strict=True) if _is_containers_own(address)]
    if loopback and loopback[0].signature in _GLOO and not on_one_host(timeline):
        yield _advertises_loopback(timeline, loopback)
    elif bridge and not (on_one_host(timeline) and "refused" in (bridge[0].values.get("why") or "")):
        # within one host, only a peer that has exited can't be reached there, and its port refuses
        yield _in_a_container(timeline, bridge[0].values["address"], bridge, "cause")
    elif not loopback:
        yield _blocked(timeline, sorted(failed, key=lambda event: not event.values.get("address")))


def _tries_without_end(timeline: Timeline) -> list[Event]:
    """Connections that NCCL tries again and again in a log that comes no further."""
    tries = [event for event in timeline.of("nccl-connect-tried") if "refused" not in event.values.get("why", "")]
    return tries if sum(1 + event.repeated for event in tries) >= _MANY_TRIES else []


def _is_containers_own(address: str) -> bool:
    return address.startswith(_BRIDGE) and address != _BRIDGES_HOST


def _advertises_loopback(timeline: Timeline, events: list[Event]) -> LogFinding:
    address = events[0].values["address"]
    return LogFinding(
        events,
        f"a peer on another host gave {address} as its own address, which is loopback: its host name resolves to "
        "that there",
        Fix(
            "export GLOO_SOCKET_IFNAME on each node with its interface to the other nodes ('ip route' shows it). "
            "Or have an administrator map the host name to its network address in /etc/hosts, on its own line",
            where="job-script",
        ),
        rank=-1,
        evidence={"address": address},
        rule=rules.DC405,
    )


def _in_a_container(timeline: Timeline, address: str, events: list[Event], role: str) -> LogFinding:
    return LogFinding(
        events,
        f"the rendezvous address {address} is in a container's own network, which does not lead to other machines",
        shared_fixes.NETWORK_OF_THE_HOST,
        role=role,
        rank=-1,
        evidence={"address": address},
        rule=rules.DC411,
    )


def _blocked(timeline: Timeline, events: list[Event]) -> LogFinding:
    library = {"gloo": "gloo", "mpi": "MPI"}.get(events[0].signature.partition("-")[0], "NCCL")
    why = value_of(events, "why") or _why_in(events) or "no answer"
    targets = sorted({event.values["address"] for event in events if event.values.get("address")})
    port = value_of(events, "port")
    where = f"{targets[0]}:{port}" if len(targets) == 1 and port else ", ".join(targets[:4]) or "a peer"
    address = in_a_command(targets[0]) if targets else None
    if _BRIDGES_HOST in targets and not on_one_host(timeline):
        # every host's own bridge has this address
        why += f", and {_BRIDGES_HOST} is Docker's bridge of each host, which leads to no other machine"
        fix = Fix(
            "export GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME on each node with its interface to the other nodes ('ip "
            "route' shows it). Or have an administrator map the host name to its network address in /etc/hosts",
            where="job-script",
        )
        if library == "MPI":
            fix = Fix(
                "name the network that all nodes share to MPI, and its interface to UCX: mpirun --mca "
                "btl_tcp_if_include NETWORK/BITS -x UCX_NET_DEVICES=INTERFACE ('ip route' shows both)",
                where="launch-line",
            )
    elif "route" in why or "unreachable" in why:
        fix = Fix(
            "see which way this host takes to the peer's address, and name the interface of the network that all nodes "
            "share (NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME)",
            command=f"ip route get {address}" if address else None,
            where="host",
        )
    else:
        fix = Fix(
            "have TCP opened for all ports among the hosts of the job, since NCCL and gloo listen on ports that the "
            "kernel chooses; or narrow net.ipv4.ip_local_port_range on all hosts to a range that is open",
            by="admin",
            where="host",
        )
    return LogFinding(
        events,
        f"the rendezvous completed, but {library} could not connect to {where}: {why}",
        fix,
        evidence={"addresses": targets[:8], "answer": why},
        rule=rules.DC412,
    )


@log_probe(rules.DC407, rules.DC405, at_first_failed=True)
def gloo_has_an_interface(timeline: Timeline) -> Iterator[LogFinding]:
    """Gloo could not use what GLOO_SOCKET_IFNAME names; a name of digits alone resolves to 0.0.0.N."""
    for (name, address), events in grouped(timeline.of("gloo-interface"), "name", "address"):
        shown = (name or address).strip()
        if address.startswith("0.0."):
            yield LogFinding(
                events,
                f"gloo took {address} for this host's address: a host name of digits alone is read as a number",
                Fix(
                    "export GLOO_SOCKET_IFNAME with the interface that leads to the other nodes, or have the host "
                    "given a name with a letter in it",
                    where="job-script",
                ),
                evidence={"address": address},
                rule=rules.DC405,
            )
            continue
        list_of_nccl = shown.startswith(("^", "="))
        problem = "it takes no list as NCCL does, only names of interfaces" if list_of_nccl else "it is not there"
        yield LogFinding(
            events,
            f"gloo can't use GLOO_SOCKET_IFNAME={shown}: {problem}",
            Fix(
                "set it to the exact name of the interface that leads to the other nodes, or unset it. Then gloo "
                "uses the interface of the host name. If nodes use different names, set it on each node ('ip -br "
                "address' lists them)",
                command="unset GLOO_SOCKET_IFNAME",
                where="job-script",
            ),
            evidence={"value": shown},
        )
