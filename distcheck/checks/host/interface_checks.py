"""Whether the interfaces that NCCL and gloo will take lead to the other nodes."""

from __future__ import annotations

from collections.abc import Iterator

from distcheck import rules
from distcheck.core.model import Finding, Fix, Severity, Unavailable, Where
from distcheck.core.registry import probe
from distcheck.launch.model import Launch
from distcheck.launch.settings import Setting, Settings

from ._network_fixes import MOST_SHOWN, change, listed, written
from .addresses import bare, is_address, is_loopback, same_subnet
from .gpus import Gpus
from .interfaces import HOST_ONLY_NAMES, PHYSICAL_NAMES, VPN_NAMES, Interface, Interfaces
from .nccl_interfaces import Chosen, InterfaceChoice, choose_nccl_interfaces, gloo_interfaces, parse_filter, uses_nccl


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
    by_name = choice.by == "named" and named is not None and not parse_filter(named.value).exclude
    problem = _problem(first, interfaces, _master_address(launch), by_name=by_name)
    if problem is not None:
        yield rules.DC406.found(
            f"NCCL takes {first.name} ({bare(first.address)}){_because(choice, named)}, {problem}",
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
    problem = None
    if choice.missing:
        problem = "; ".join(_why_missing(name, setting.value, interfaces) for name in choice.missing)
    elif launch.several_nodes and (cut_off := [item for item in choice.interfaces if _cut_off(item, interfaces)]):
        problem = "; ".join(
            f"{item.name} is {'loopback, which no other node reaches' if is_loopback(item.address) else 'down'}"
            for item in cut_off
        )
    if problem is None:
        return
    way = _way_to_the_nodes(interfaces, _master_address(launch))
    yield rules.DC407.found(
        f"gloo can't use {written(setting)}: {problem}",
        severity=None if starts else Severity.INFO,
        where=Where(variable="GLOO_SOCKET_IFNAME"),
        evidence={
            "value": setting.value,
            "missing": list(choice.missing),
            "interfaces_with_address": [item.name for item in interfaces.interfaces if item.addresses],
        },
        fix=change(
            setting,
            "set it to the exact name of the interface that leads to the other nodes, or unset it: gloo then uses the "
            f"interface of the host name. If nodes use different names, set it on each node{_show_how(way)}",
            None if way is None else f"export GLOO_SOCKET_IFNAME={way}",
        ),
    )


def _names_nothing(named: Setting, interfaces: Interfaces, way: str | None, *, nccl: bool) -> Finding:
    """NCCL_SOCKET_IFNAME leaves NCCL without any interface."""
    wanted = parse_filter(named.value)
    if wanted.exclude:
        problem = f"excludes every running interface of this host ({listed(_running_names(interfaces))})"
    else:
        reasons = []
        for entry, _ in wanted.entries:
            near = [item for item in interfaces.interfaces if item.name.startswith(entry)]
            if wanted.exact:
                near = [item for item in near if item.name == entry]
            reasons.append(_why_not(entry, near))
        problem = f"gives NCCL no interface: {'; '.join(reasons)}; running here: {listed(_running_names(interfaces))}"
    return rules.DC406.found(
        f"{written(named)} {problem}",
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
            "remove NCCL_SOCKET_FAMILY from the job script"
            if of_family
            else "have an administrator bring the network up",
            by="user" if of_family else "admin",
            where="job-script" if of_family else "host",
        ),
    )


def _prefix_matches_more(
    named: Setting, choice: InterfaceChoice, more: tuple[str, ...], interfaces: Interfaces
) -> Finding:
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


def _problem(first: Chosen, interfaces: Interfaces, master: str | None, *, by_name: bool) -> str | None:
    """Return why the other nodes cannot be reached from this interface; None if they can, as far as known."""
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
    if not by_name and _virtual(first.name, interfaces):
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


def _more_than_named(value: str, choice: InterfaceChoice) -> tuple[str, ...]:
    """What a prefix matches besides interfaces that are named in full; empty where nothing is named in full."""
    wanted = parse_filter(value)
    if wanted.exclude or wanted.exact:
        return ()
    entries = [entry for entry, _ in wanted.entries]
    if not any(entry in choice.names for entry in entries):
        return ()
    # an entry that is no interface's name is a prefix on purpose: its matches are expected
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


def _because(choice: InterfaceChoice, named: Setting | None) -> str:
    if named is not None and choice.by == "named":
        return f" for {written(named)}"
    return " by itself"


def _evidence(choice: InterfaceChoice, named: Setting | None, interfaces: Interfaces) -> dict[str, object]:
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
