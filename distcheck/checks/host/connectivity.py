"""Whether this host reaches the rendezvous address of the job, and what may be in between.

Only hosts that will be clients connect, only to the address and port that the launch names, and they close at once.
What the name of the master leads to is the matter of ``names.py``, who listens on this host that of ``ports.py``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, NotApplicable, Severity, Unavailable, Where
from distcheck.core.registry import fact, probe
from distcheck.core.world import World
from distcheck.launch.model import Launch
from distcheck.launch.settings import Settings
from distcheck.rules import shared_fixes

from .hostnames import NO_LAUNCH, MasterName, is_loopback, is_own, literal
from .interfaces import Interfaces
from .platform import Platform

#: Seconds for all addresses of the master together. A host that is there answers in a fraction of one, also across
#: continents; the kernel itself gives an address in its own network up after three.
CONNECT_LIMIT_S = 3.0
#: Rendezvous backends of torch that talk HTTP to a server of their own.
_ETCD = ("etcd", "etcd-v2")
#: Worst last: what to report of several addresses.
_OUTCOMES = ("connected", "refused", "timeout", "no-route")


class MasterReach(NamedTuple):
    """What came of connecting to the master. Unavailable where no launch names it."""

    address: str
    port: int
    #: ``connected``, ``refused`` (the host is there, nothing listens), ``timeout``, ``no-route``, or ``not-tried``
    outcome: str
    #: the system's own words, where there are any
    error: str | None = None
    elapsed_s: float = 0.0
    #: why it was not tried
    why: str | None = None


@fact(limit_s=5, of_launch=True)
def read_master_reach(
    world: World, launch: Launch, master: MasterName, interfaces: Interfaces | Unavailable
) -> MasterReach:
    """Connect to the master and close again, where this host will be one of its clients."""
    if not launch.launched:
        raise NotApplicable(NO_LAUNCH)
    port = launch.master_port or 0
    why = _not_to_try(launch, master, interfaces)
    if why is not None:
        return MasterReach(master.name.name, port, "not-tried", why=why)
    start = time.monotonic()
    found: MasterReach | None = None
    addresses = master.name.addresses
    for number, address in enumerate(addresses):
        left = CONNECT_LIMIT_S - (time.monotonic() - start)
        outcome, error = _connect(world, address, port, max(0.1, left / (len(addresses) - number)))
        one = MasterReach(address, port, outcome, error, round(time.monotonic() - start, 3))
        if found is None or _OUTCOMES.index(outcome) < _OUTCOMES.index(found.outcome):
            found = one
        if outcome == "connected":
            break
    if found is None:
        raise Unavailable(f"{master.name.name} has no address")
    return found


def _not_to_try(launch: Launch, master: MasterName, interfaces: Interfaces | Unavailable) -> str | None:
    """Why this host does not connect; None where it should."""
    if not launch.several_nodes:
        return "the launch is not known to have several nodes"
    if launch.rank == 0 or (launch.rank is None and launch.serves_store):
        return "this host serves the store itself"
    if master.name.error is not None:
        return "the name does not resolve"
    if not launch.master_port:
        return "the launch names no port"
    if all(is_loopback(address) for address in master.name.addresses):
        return "the address is loopback"
    if not isinstance(interfaces, Unavailable) and is_own(master.name.addresses, interfaces):
        return "the address is this host's own"
    return None


def _connect(world: World, address: str, port: int, timeout_s: float) -> tuple[str, str | None]:
    try:
        world.connect(address, port, timeout_s=timeout_s)
    except TimeoutError:
        return "timeout", None
    except ConnectionRefusedError:
        return "refused", None
    except OSError as error:  # prohibited, unreachable, a family that this host does not speak
        return "no-route", error.strerror or str(error)
    return "connected", None


@probe(rules.DC403)
def master_is_reachable(master: MasterName, reach: MasterReach, platform: Platform | Unavailable) -> Iterator[Finding]:
    """A client of the store gets an answer from the master's host."""
    if reach.outcome in ("connected", "not-tried"):
        return
    place = f"{_bracketed(reach.address)}:{reach.port}"
    named = place if literal(master.name.name) else f"{place} ({master.name.name})"
    where = Where(variable=master.origin)
    evidence = {"address": reach.address, "port": reach.port, "outcome": reach.outcome, "error": reach.error}
    evidence["elapsed_s"] = reach.elapsed_s
    if reach.outcome == "refused":
        yield rules.DC403.found(
            f"{named} refuses connections: its host answers, and no process listens on the port yet",
            severity=Severity.INFO,
            where=where,
            evidence=evidence,
            fix=shared_fixes.START_ON_THE_FIRST_NODE,
        )
        return
    if reach.outcome == "timeout":
        message = f"{named} did not answer within {reach.elapsed_s:.1f} s: it is down, or a firewall drops the packets"
    else:
        message = f"{named} can't be reached from here: {reach.error}"
    on_linux = not isinstance(platform, Unavailable) and platform.system == "linux"
    way = f"ip route get {reach.address.split('%')[0]}" if on_linux else None
    yield rules.DC403.found(
        message,
        where=where,
        evidence=evidence,
        fix=Fix(
            "check that the address is that of the first node in the network of all nodes, and have port "
            f"{reach.port} opened between the nodes{'; this shows the way that this host takes' if way else ''}",
            command=way,
            where="host",
        ),
    )


@probe(rules.DC409)
def ipv6_is_whole(launch: Launch, master: MasterName, interfaces: Interfaces) -> Iterator[Finding]:
    """Where the master has an IPv6 address, this host can use it, or a harmless warning is explained."""
    if not launch.several_nodes:
        return
    addresses = [address for address in master.name.addresses if ":" in address and not is_loopback(address)]
    if not addresses:
        return
    where = Where(variable=master.origin)
    evidence = {"addresses": list(master.name.addresses), "ipv6_disabled": interfaces.ipv6_disabled}
    other = [address for address in master.name.addresses if ":" not in address]
    if (literal(addresses[0]) or "").startswith("fe80:") and "%" not in addresses[0]:
        problem = f"{addresses[0]} is a link-local address, which means nothing without the interface behind a %"
    elif not _has_global_ipv6(interfaces):
        state = "IPv6 is disabled here" if interfaces.ipv6_disabled else "this host has no IPv6 address of its own"
        problem = f"{master.name.name} has the IPv6 address {addresses[0]}, and {state}"
    else:
        return
    if other:
        message = f"{problem}: torch warns (errno 97 or 101) and goes on with {other[0]}"
        fix = Fix(f"none is needed; {other[0]} in place of the name spares you the warning", where="launch-line")
    else:
        message = f"{problem}, and it has no IPv4 address"
        fix = Fix("give an IPv4 address of the first node, or have IPv6 set up on this one", where="launch-line")
    yield rules.DC409.found(message, where=where, evidence=evidence, fix=fix)


@probe(rules.DC124)
def no_proxy_before_etcd(launch: Launch, settings: Settings) -> Iterator[Finding]:
    """Nothing in the environment sends requests to the etcd server through a proxy.

    torch's own client (python-etcd 0.4.5) makes its connections with urllib3 and ignores these variables, so
    this is worth knowing only. TCPStore, gloo and NCCL use plain TCP, where no proxy has a part.
    """
    if not launch.launched or launch.rdzv_backend not in _ETCD or not launch.rdzv_endpoint:
        return
    from distcheck.launch.endpoint import split_endpoint

    host, _ = split_endpoint(launch.rdzv_endpoint.split(",")[0])
    if not host or is_loopback(host) or host == "localhost":
        return
    scheme = launch.rdzv_conf.get("protocol", "http").lower()
    names = (f"{scheme}_proxy", f"{scheme}_proxy".upper(), "all_proxy", "ALL_PROXY")
    proxy = next((item for name in names if (item := settings.of(name)) is not None and item.value), None)
    exempt = settings.get("no_proxy") or settings.get("NO_PROXY") or ""
    if proxy is None or _is_exempt(host, exempt):
        return
    yield rules.DC124.found(
        f"{proxy.name} is {proxy.value}, and no_proxy does not name the etcd host {host}: a client that uses the "
        "proxy sends it the rendezvous",
        severity=Severity.INFO,
        where=Where(variable=proxy.name),
        evidence={"proxy": proxy.value, "no_proxy": exempt, "host": host},
        fix=Fix(
            f"add {host} to no_proxy in the job script, so that curl and other clients of etcd go to it directly",
            command=f'export no_proxy="{exempt + "," if exempt else ""}{host}"',
            where="job-script",
        ),
    )


def _has_global_ipv6(interfaces: Interfaces) -> bool:
    """Some interface has an IPv6 address that is neither loopback nor link-local."""
    own = (literal(address) or "" for address in interfaces.own_addresses())
    return any(":" in address and address != "::1" and not address.startswith("fe80:") for address in own)


def _is_exempt(host: str, no_proxy: str) -> bool:
    """As curl and Python's urllib read it: ``*``, a host, or a domain with or without its leading dot."""
    host = host.lower().rstrip(".")
    for entry in no_proxy.lower().split(","):
        entry = entry.strip().split(":")[0] if entry.count(":") == 1 else entry.strip()
        if entry == "*" or (entry and (host == entry.lstrip(".") or host.endswith("." + entry.lstrip(".")))):
            return True
    return False


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address
