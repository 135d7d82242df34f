"""Names and addresses: what this host calls itself, what the master's name leads to, who takes itself for the host.

Whether anything answers at the master's address is the matter of ``reach.py``, which interface a library takes that
of ``interfaces.py``.
"""

from __future__ import annotations

import functools
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, NotApplicable, Severity, Unavailable, Where
from distcheck.core.registry import fact, probe
from distcheck.core.world import World
from distcheck.launch.model import LOOPBACK_NAMES, Launch
from distcheck.launch.settings import Settings
from distcheck.rules import shared_fixes

from .gpus import Gpus
from .interfaces import Interfaces
from .platform import Platform

#: Addresses that a fix names.
MOST_NAMED = 4
#: Why the rendezvous is not checked without a launch.
NO_LAUNCH = "no launch sets a rendezvous"
#: Seconds for the reverse look-up in ``getfqdn``, which waits for a name server where the hosts file lacks the address.
FULL_NAME_LIMIT_S = 2.0
#: Seconds for the own name where no launch needs it.
SHELL_LIMIT_S = 0.5
#: Seconds for one look-up: glibc gives a name server 5 s (resolv.conf(5)), and a good one answers in milliseconds.
RESOLVER_LIMIT_S = 4.0
NO_ANSWER = "the name server did not answer in time"
#: What Docker Desktop writes into the hosts file of Windows, and ``getfqdn`` then answers with.
DOCKER_DESKTOP_NAME = "kubernetes.docker.internal"
#: Characters that no host name and no address has; what holds one is malformed (DC102), not unknown.
_NOT_IN_NAMES = frozenset(" \t\r\n/[],;@'\"$")


class Name(NamedTuple):
    """A name and the answer of the resolver."""

    name: str
    addresses: tuple[str, ...] = ()
    #: the resolver's error, such as ``Name or service not known``; None where it resolved
    error: str | None = None
    elapsed_s: float = 0.0


class HostName(NamedTuple):
    """This host's own name."""

    name: Name
    #: ``socket.getfqdn()``, which c10d passes to the other nodes; empty: not needed, or no answer
    full_name: str = ""
    #: what the full name leads to
    full: Name | None = None


class MasterName(NamedTuple):
    """Name or address of the rendezvous. Unavailable if the launch names none."""

    name: Name
    #: the variable or option that names it
    origin: str = "MASTER_ADDR"


@fact(limit_s=5)
def read_host_name(world: World, launch: Launch) -> HostName:
    """gethostname() and what it resolves to; for a coming launch the full name as well."""
    own = world.host_name()
    if not launch.launched:
        return HostName(_within(SHELL_LIMIT_S, lambda: _look_up(world, own)) or Name(own, error=NO_ANSWER))
    name = _look_up(world, own)
    if launch.stage != "planned":
        return HostName(name)
    full = _within(FULL_NAME_LIMIT_S, lambda: _full_name(world, name))
    return HostName(name) if full is None else HostName(name, full.name, full)


@fact(limit_s=5, of_launch=True)
def read_master_name(world: World, launch: Launch) -> MasterName:
    """MASTER_ADDR, or the host of the rendezvous endpoint, resolved."""
    if not launch.launched:
        raise NotApplicable(NO_LAUNCH)
    host, origin = _rendezvous_host(launch)
    if not host:
        raise NotApplicable("neither MASTER_ADDR nor an option sets the rendezvous")
    if _NOT_IN_NAMES.intersection(host):
        raise Unavailable(f"{origin} holds {host!r}, which is no host name and no address")
    if ":" in host and not literal(host):
        raise Unavailable(f"{origin} holds {host!r}, which is no host name and no address")
    if literal(host):
        return MasterName(Name(host, (host,)), origin)
    name = _within(RESOLVER_LIMIT_S, lambda: _look_up(world, host))
    if name is None:
        raise Unavailable(f"{host!r} ({origin}): {NO_ANSWER}")
    return MasterName(name, origin)


@probe(rules.DC404)
def master_name_resolves(launch: Launch, master: MasterName, platform: Platform | Unavailable) -> Iterator[Finding]:
    """Report a rendezvous name that this host cannot resolve."""
    name = master.name
    evidence = {"name": name.name, "addresses": list(name.addresses), "error": name.error, "elapsed_s": name.elapsed_s}
    where = Where(variable=master.origin)
    if name.error is not None:
        yield rules.DC404.found(
            f"{name.name!r} ({master.origin}) does not resolve on this host: {name.error}",
            where=where,
            evidence=evidence,
            fix=_master_name_fix(launch, master, platform),
        )
    elif name.addresses and all(_is_number(address) for address in name.addresses):
        yield rules.DC404.found(
            f"{name.name!r} ({master.origin}) is read as the number {name.addresses[0]}, which leads nowhere",
            where=where,
            evidence=evidence,
            fix=Fix(
                "set the address of rank 0's host instead; a name of digits alone is never resolved",
                where=_place(launch),
            ),
        )


@probe(rules.DC404)
def own_name_resolves(
    launch: Launch,
    host: HostName,
    platform: Platform | Unavailable,
    interfaces: Interfaces | Unavailable,
    gpus: Gpus | Unavailable,
    settings: Settings,
) -> Iterator[Finding]:
    """This host's own name leads to an address: torchrun hands it to all ranks, gloo listens there."""
    given = host.full if host.full is not None else host.name
    exported = _gives_own_name(launch)
    evidence = {"host_name": host.name.name, "full_name": host.full_name, "error": given.error}
    found = functools.partial(rules.DC404.found, where=Where(object=given.name), evidence=evidence)
    if exported and _system(platform) == "win32" and given.name == DOCKER_DESKTOP_NAME:
        yield found(
            f"this host calls itself {DOCKER_DESKTOP_NAME}, and torchrun would hand that to the ranks as MASTER_ADDR",
            fix=Fix(
                "add --local-addr=127.0.0.1 for a job on this machine alone; the name comes from the line that Docker "
                "Desktop writes into the hosts file",
                where="launch-line",
            ),
        )
    elif given.error is None:
        return
    elif given.error == NO_ANSWER:
        raise Unavailable(f"{given.name}: {NO_ANSWER}")
    elif exported:
        yield found(
            f"this host's own name {given.name!r} does not resolve ({given.error}), "
            "and torchrun would hand it to the ranks as MASTER_ADDR",
            fix=Fix(
                f"add --local-addr={_own_address(launch, interfaces)} to the launch on this node, or have "
                f"{given.name} added to /etc/hosts or DNS",
                where="launch-line",
            ),
        )
    elif _gloo_between_nodes(launch, gpus, settings):
        yield found(
            f"this host's own name {given.name!r} does not resolve ({given.error}), "
            "so gloo falls back to loopback, where other nodes can't reach it",
            fix=_name_the_interface(interfaces),
        )
    elif not launch.launched:
        yield found(
            f"this host's own name {given.name!r} does not resolve ({given.error}); torchrun needs it",
            severity=Severity.INFO,
            fix=Fix(
                f"have {given.name} added to /etc/hosts or DNS, or give --local-addr with an address when you launch",
                by="admin",
                where="host",
            ),
        )


@probe(rules.DC405)
def own_name_is_no_loopback(
    launch: Launch, host: HostName, interfaces: Interfaces | Unavailable, gpus: Gpus | Unavailable, settings: Settings
) -> Iterator[Finding]:
    """This host's own name leads to an address at which other hosts, and its own ranks, find it."""
    name = host.name
    if name.error == NO_ANSWER:
        raise Unavailable(f"{name.name}: {NO_ANSWER}")
    if not name.addresses:
        return
    first = name.addresses[0]
    evidence = {"host_name": name.name, "full_name": host.full_name, "addresses": list(name.addresses)}
    found = functools.partial(rules.DC405.found, where=Where(object=name.name), evidence=evidence)
    if launch.several_nodes and _gives_own_name(launch) and host.full_name in LOOPBACK_NAMES:
        yield found(
            f"this host's full name is {host.full_name}, and torchrun would hand it to the ranks of all nodes as "
            "MASTER_ADDR",
            fix=Fix(
                f"add --local-addr={_own_address(launch, interfaces)} to the launch on this node, or have an "
                f"administrator give {name.name} a line of its own in /etc/hosts, with its network address",
                where="launch-line",
            ),
        )
    elif _is_number(first):
        hurts = _gives_own_name(launch) or _gloo_between_nodes(launch, gpus, settings)
        yield found(
            f"this host's name {name.name!r} is read as the number {first}, where its ranks would wait in vain",
            severity=None if hurts else Severity.INFO,
            fix=Fix(
                f"add --local-addr={_own_address(launch, interfaces)} to the launch on this node, or have the host "
                "given a name with a letter in it",
                where="launch-line",
            ),
        )
    elif is_loopback(first) and (launch.several_nodes or not launch.launched):
        if settings.get("GLOO_SOCKET_IFNAME"):
            return
        hurts = _gloo_between_nodes(launch, gpus, settings)
        yield found(
            f"this host's name {name.name!r} resolves to {first}, where no other node can reach it",
            severity=None if hurts else Severity.INFO,
            fix=_name_the_interface(interfaces),
        )


@probe(rules.DC408)
def rendezvous_host_knows_itself(
    launch: Launch, host: HostName, master: MasterName, interfaces: Interfaces
) -> Iterator[Finding]:
    """torchrun's own test, whether this node is the rendezvous host, agrees with the addresses that this host has.

    torch 2.13 (``elastic/rendezvous/utils.py``) compares the endpoint with gethostname() and with what that resolves
    to, and with no interface. Only this host's own verdict is judged.
    """
    if launch.stage != "planned" or launch.rdzv_backend != "c10d" or launch.standalone or "is_host" in launch.rdzv_conf:
        return
    name = master.name
    if name.error is not None or host.name.error is not None or is_loopback(name.name) or name.name in LOOPBACK_NAMES:
        return
    addresses = {literal(address) for address in name.addresses}
    named = {literal(address) for address in host.name.addresses}
    matched = name.name in (host.name.name, host.full_name) or bool(addresses & named)
    holders = sorted(
        item.name for item in interfaces.interfaces if addresses & {_bare(address) for address in item.addresses}
    )
    evidence = {
        "endpoint": launch.rdzv_endpoint,
        "endpoint_addresses": list(name.addresses),
        "host_name": host.name.name,
        "host_name_addresses": list(host.name.addresses),
        "interfaces": holders,
        "torchrun_takes_itself_for_the_host": matched,
    }
    where = Where(variable=master.origin)
    if holders and not matched:
        yield rules.DC408.found(
            f"{name.name} is this host's address ({holders[0]}), but torchrun will not see that it is the rendezvous "
            f"host. It checks only {host.name.name}, which is {', '.join(host.name.addresses)}",
            where=where,
            evidence=evidence,
            fix=Fix(
                "add --standalone in place of the endpoint"
                if not launch.several_nodes
                else "add --rdzv-conf=is_host=1 to the launch on this node and --rdzv-conf=is_host=0 on all others",
                where="launch-line",
            ),
        )
    elif matched and not holders and (_given_node_rank(launch) or 0) > 0:
        yield rules.DC408.found(
            f"this is node {_given_node_rank(launch)} and {name.name} is none of its addresses, "
            "but torchrun would take it for the rendezvous host and wait for the others",
            where=where,
            evidence=evidence,
            fix=Fix(
                "add --rdzv-conf=is_host=0 to the launch on this node and --rdzv-conf=is_host=1 on the endpoint's host",
                where="launch-line",
            ),
        )


@probe(rules.DC408)
def local_address_is_own(launch: Launch, interfaces: Interfaces) -> Iterator[Finding]:
    """Report a --local-addr that is no address of this host: torchrun then waits and prints nothing."""
    address = literal(launch.local_addr or "")
    if launch.stage != "planned" or address is None or is_loopback(address):
        return
    own = {literal(one) for one in interfaces.own_addresses()}
    if address in own or not own:
        return
    yield rules.DC408.found(
        f"--local-addr={launch.local_addr} is none of this host's addresses",
        where=Where(object="--local-addr"),
        evidence={"local_addr": launch.local_addr, "addresses": sorted(one for one in own if one is not None)},
        fix=Fix("give each node an address of its own, or omit the option", where="launch-line"),
    )


@probe(rules.DC408)
def static_address_is_of_the_first_node(
    launch: Launch, master: MasterName, interfaces: Interfaces, platform: Platform | Unavailable
) -> Iterator[Finding]:
    """Report an address of a static rendezvous that is not of node 0, or that node 1 has itself.

    An address that is translated on its way to a pod or a container is none of its interfaces.
    """
    if launch.rdzv_backend == "c10d" or launch.standalone or not launch.several_nodes or launch.agent_store:
        return
    if launch.scheduler == "kubernetes" or (isinstance(platform, Platform) and platform.container is not None):
        return
    addresses = master.name.addresses
    own = sorted(address for address in interfaces.own_addresses() if not is_loopback(address))
    known = [address for address in own if not address.startswith(("fe80:", "169.254."))]
    if not addresses or not own or all(is_loopback(address) for address in addresses):
        return  # DC404, DC419
    here = is_own(addresses, interfaces)
    first = launch.serves_store
    if first and not here:
        problem = f"this is node 0, and {master.name.name} ({addresses[0]}) is none of its addresses"
    elif launch.stage == "planned" and launch.node_rank and here:
        problem = f"this is node {launch.node_rank}, and {master.name.name} is its own address, not that of node 0"
    else:
        return
    yield rules.DC408.found(
        f"{problem}: the nodes will not find each other",
        severity=Severity.WARNING,
        where=Where(variable=master.origin),
        evidence={"address": list(addresses), "own_addresses": own, "node_rank": launch.node_rank},
        fix=Fix(
            f"give {_option(launch)} the address of node 0, the same on every node"
            + (f" (this one has {', '.join(known[:MOST_NAMED])})" if first else ""),
            where=_place(launch),
        ),
    )


@probe(rules.DC419)
def master_is_no_loopback(
    launch: Launch, host: HostName | Unavailable, master: MasterName | Unavailable
) -> Iterator[Finding]:
    """Report an address of the rendezvous that leads nodes to different hosts."""
    if not launch.several_nodes:
        return
    if launch.scheduler == "kubernetes" and launch.serves_store and not launch.standalone and _is_pods_own(launch):
        return  # operators write localhost into the master's own pod, and the Service's name into the others
    if launch.agent_store and (launch.node_rank == 0 or launch.variables.get("TORCHELASTIC_RUN_ID") == "none"):
        return  # the agents have connected there already: all "nodes" are on this machine, or this one is the master
    if isinstance(master, Unavailable):
        # a loopback address is one on any host
        written, origin = _rendezvous_host(launch)
        if not written or not (is_loopback(written) or written.rstrip(".") in LOOPBACK_NAMES):
            raise master
        master = MasterName(Name(written), origin)
    name = master.name
    own = () if isinstance(host, Unavailable) else (host.name.name, host.full_name)
    if is_loopback(name.name) or name.name.rstrip(".") in LOOPBACK_NAMES:
        seen = f"the rendezvous of {launch.nnodes_max or launch.nnodes} nodes is {name.name} ({master.origin})"
        problem = f"{seen}, where each finds only itself"
    elif (
        name.addresses
        and all(is_loopback(address) for address in name.addresses)
        and name.name not in own
        and launch.serves_store is not True
        and not isinstance(host, Unavailable)
    ):
        problem = (
            f"{name.name!r} ({master.origin}) resolves to {name.addresses[0]} here, where this node finds only itself"
        )
    else:
        return
    yield rules.DC419.found(
        problem,
        severity=Severity.INFO if launch.nnodes == 1 else None,
        where=Where(variable=master.origin),
        evidence={"name": name.name, "addresses": list(name.addresses), "nodes": launch.nnodes_max or launch.nnodes},
        fix=Fix(
            f"give {_option(launch)} the address of the first node in the network that all nodes share, "
            "the same on every node",
            where=_place(launch),
        ),
    )


def _is_pods_own(launch: Launch) -> bool:
    """The address is the one that the operator gave this pod, not one that was typed."""
    given = {launch.variables.get("PET_MASTER_ADDR"), launch.variables.get("MASTER_ADDR")}
    words = () if launch.command is None else launch.command.argv
    typed = any(re.fullmatch(r"--(master[-_]addr|rdzv[-_]endpoint)(=.*)?", word) for word in words)
    return launch.master_addr in given and not typed


# addresses


def literal(text: str) -> str | None:
    """An IPv4 or IPv6 address in its shortest spelling, without a zone; None for a name."""
    for family, candidate in ((socket.AF_INET, text), (socket.AF_INET6, text.split("%")[0])):
        try:
            return socket.inet_ntop(family, socket.inet_pton(family, candidate))
        except (OSError, ValueError):
            continue
    return None


def is_loopback(address: str) -> bool:
    """An address at which every host finds itself: loopback, or the unspecified address."""
    short = literal(address)
    return short is not None and (short.removeprefix("::ffff:").startswith("127.") or short in ("::1", "::", "0.0.0.0"))


def is_own(addresses: tuple[str, ...], interfaces: Interfaces) -> bool:
    """One of the addresses belongs to this host."""
    own = {literal(address) for address in interfaces.own_addresses()}
    return any(is_loopback(address) or literal(address) in own for address in addresses)


def _bare(address: str) -> str | None:
    return literal(address.split("/")[0])


def _is_number(address: str) -> bool:
    """What the resolver makes of a name of digits: 12 becomes 0.0.0.12 (inet_aton)."""
    return address.startswith("0.") and address != "0.0.0.0"


# reading


def _look_up(world: World, name: str) -> Name:
    start = time.perf_counter()
    try:
        addresses, error = world.resolve(name), None
    except OSError as failure:
        addresses, error = (), failure.strerror or str(failure)
    except ValueError:
        addresses, error = (), "a part between its dots is empty or longer than 63 characters"
    return Name(name, addresses, error, round(time.perf_counter() - start, 4))


def _full_name(world: World, own: Name) -> Name:
    try:
        name = world.full_host_name()
    except (OSError, ValueError):  # a name that cannot be resolved has no longer form either
        return own
    return own if name == own.name else _look_up(world, name)


def _within(limit_s: float, function: Callable[[], Name]) -> Name | None:
    """What the function gives, None where it takes longer: a resolver can't be interrupted, only be left."""
    found: list[Name] = []
    thread = threading.Thread(target=lambda: found.append(function()), daemon=True)
    thread.start()
    thread.join(limit_s)
    return found[0] if found else None


def _rendezvous_host(launch: Launch) -> tuple[str, str]:
    """Return the host of the rendezvous, and the variable or option that names it; empty if there is none."""
    if launch.standalone:
        return "localhost", "--standalone"
    if launch.rdzv_endpoint and launch.master_addr is None:
        from distcheck.launch.endpoint import split_endpoint

        # etcd takes a list of endpoints
        return split_endpoint(launch.rdzv_endpoint.split(",")[0])[0], "--rdzv-endpoint"
    return launch.master_addr or "", _option(launch)


# judging


def _option(launch: Launch) -> str:
    """Return the variable or option that sets the rendezvous."""
    if launch.rdzv_endpoint or launch.rdzv_backend == "c10d":
        return "--rdzv-endpoint"
    if launch.stage == "planned":
        options = {
            "torchrun": "--master-addr",
            "torch.distributed.launch": "--master-addr",
            "deepspeed": "--master_addr",
            "accelerate": "--main_process_ip",
        }
        return options.get(launch.launcher or "", "MASTER_ADDR")
    return "MASTER_ADDR"


def _place(launch: Launch) -> str:
    return "launch-line" if _option(launch).startswith("-") else "job-script"


def _given_node_rank(launch: Launch) -> int | None:
    """What the user or the scheduler calls this node, also where c10d does not listen to it."""
    if launch.node_rank is not None or launch.command is None:
        return launch.node_rank
    return launch.command.node_rank


def _system(platform: Platform | Unavailable) -> str | None:
    return None if isinstance(platform, Unavailable) else platform.system


def _gives_own_name(launch: Launch) -> bool:
    """torchrun will hand this host's full name to the ranks as MASTER_ADDR, if rank 0 comes to be here."""
    meets_by_c10d = launch.standalone or launch.rdzv_backend == "c10d"
    return launch.stage == "planned" and meets_by_c10d and launch.local_addr is None


def _gloo_between_nodes(launch: Launch, gpus: Gpus | Unavailable, settings: Settings) -> bool:
    """Report several nodes on gloo whose host name resolves to an address that does not leave the host."""
    unseen = isinstance(gpus, Unavailable) or not gpus.gpus
    gloo = unseen if launch.backend is None else "gloo" in launch.backend
    return launch.launched and launch.several_nodes and gloo and not settings.get("GLOO_SOCKET_IFNAME")


def _own_address(launch: Launch, interfaces: Interfaces | Unavailable) -> str:
    """The address to give for this host: loopback for a job on it alone."""
    if not launch.several_nodes:
        return "127.0.0.1"
    chosen = _main_interface(interfaces)
    return "ADDRESS" if chosen is None else chosen[1]


def _main_interface(interfaces: Interfaces | Unavailable) -> tuple[str, str] | None:
    """The interface of the default route with its first IPv4 address."""
    if isinstance(interfaces, Unavailable) or interfaces.default_route is None:
        return None
    item = interfaces.named(interfaces.default_route)
    for address in () if item is None or item.loopback else item.addresses:
        bare = _bare(address)
        if bare is not None and ":" not in bare and not is_loopback(bare):
            return item.name if item is not None else "", bare
    return None


def _name_the_interface(interfaces: Interfaces | Unavailable) -> Fix:
    chosen = _main_interface(interfaces)
    text = (
        "name the interface of the nodes' network in GLOO_SOCKET_IFNAME, or have an administrator put this host's "
        "address there before its name in /etc/hosts"
    )
    if chosen is None:
        return Fix(text, where="job-script")
    return Fix(
        f"{text}; {chosen[0]} ({chosen[1]}) holds the default route here, other nodes may call theirs otherwise",
        command=f"export GLOO_SOCKET_IFNAME={chosen[0]}",
        where="job-script",
    )


def _master_name_fix(launch: Launch, master: MasterName, platform: Platform | Unavailable) -> Fix:
    name = master.name.name
    if launch.agent_store:
        return Fix(
            f"start torchrun on the node that calls itself {name} with --local-addr=ADDRESS, or have the name added to "
            "/etc/hosts or DNS of all nodes",
            where="launch-line",
        )
    in_pod = not isinstance(platform, Unavailable) and platform.container == "kubernetes"
    if in_pod or launch.scheduler == "kubernetes":
        return shared_fixes.wait_for_name(name)
    if master.name.error is not None and "emporary failure" in master.name.error:
        return Fix(
            f"give {master.origin} the address of that host: the name server of this host does not answer "
            "(/etc/resolv.conf names it)",
            where=_place(launch),
        )
    if name.endswith(".local") and _system(platform) == "darwin" and not launch.several_nodes:
        return Fix(
            f"give {master.origin} the value 127.0.0.1: a .local name resolves only in a network that knows this Mac",
            where=_place(launch),
        )
    return Fix(
        f"set {master.origin} to the address of that host, or to a name that all nodes resolve. DNS or the /etc/hosts "
        "of all nodes can have the name",
        where=_place(launch),
    )
