"""Ports that hosts do not reach on each other, and which hosts are likely the reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from distcheck import rules
from distcheck.core.model import Finding, Fix, Unavailable, Where
from distcheck.core.registry import probe

from .connectivity import peers_of
from .failed_connections import MOST_SHOWN, failed_pairs, pair_text
from .hostlist import compress_hosts, shorten_hosts
from .network import explained_hosts
from .records import Cluster, ConnectionAttempt, Reach

#: From this share of failed tries on, the host itself is the cause.
_MOST = 0.5


@probe(rules.DC412)
def ports_are_open_between_hosts(cluster: Cluster | Unavailable, reach: Reach) -> Iterator[Finding]:
    """Report hosts that do not reach the ports on which the others' NCCL and gloo will listen, in both directions."""
    if reach.hosts < 2:
        return
    if not reach.tried:
        raise Unavailable("no host had an address on which another one could have tried it")
    blocked = failed_pairs(reach)
    if not isinstance(cluster, Unavailable):
        explained = explained_hosts(cluster, reach, blocked)
        blocked = {pair: items for pair, items in blocked.items() if explained.isdisjoint(pair)}
    if not blocked:
        return
    yield from _blocked(blocked, reach)


def _blocked(blocked: Mapping[tuple[str, str], Sequence[ConnectionAttempt]], reach: Reach) -> Iterator[Finding]:
    """Return the likely hosts: those that most cannot reach, then those that reach few; then single pairs."""
    tries = max(1, len(peers_of(0, reach.hosts)))
    incoming = Counter(target for _, target in blocked)
    outgoing = Counter(source for source, _ in blocked)
    closed = {host for host, count in incoming.items() if count > tries * _MOST}
    mute = {host for host, count in outgoing.items() if count > tries * _MOST}
    if reach.hosts == 2:
        # with two hosts it can be either end: if the sender's own kernel refuses, it is the sender
        closed, mute = set(), {source for source, _ in blocked if _is_own_doing(blocked, source)}
        closed = {target for source, target in blocked if source not in mute}
    elif len(closed) * 2 > reach.hosts and len(mute) * 2 > reach.hosts:
        yield _between_all(blocked, reach, tries)
        return
    elif len(closed) * 2 > reach.hosts or len(mute) * 2 > reach.hosts:
        # most are no minority: search at the other end for hosts that reach few because most cannot be reached
        closed, mute = (set(), mute) if len(mute) < len(closed) else (closed, set())
    both = closed & mute
    for hosts, way in ((both, "both"), (closed - both, "to"), (mute - both, "from")):
        if hosts:
            yield _of_hosts(hosts, way, blocked, reach)
    rest = {pair: items for pair, items in blocked.items() if pair[1] not in closed and pair[0] not in mute}
    if rest:
        yield _of_pairs(rest, reach)


def _is_own_doing(blocked: Mapping[tuple[str, str], Sequence[ConnectionAttempt]], source: str) -> bool:
    items = [item for pair, found in blocked.items() if pair[0] == source for item in found]
    return all(item.outcome == "no-route" for item in items)


def _of_hosts(
    hosts: set[str], way: str, blocked: Mapping[tuple[str, str], Sequence[ConnectionAttempt]], reach: Reach
) -> Finding:
    concerned = {
        (source, target): items
        for (source, target), items in blocked.items()
        if (target in hosts and way != "from") or (source in hosts and way != "to")
    }
    items = [item for found in concerned.values() for item in found]
    names = shorten_hosts(hosts)
    one = len(hosts) == 1
    others = len({host for pair in concerned for host in pair} - hosts)
    other = f"{others:,} other host{'s' * (others != 1)}"
    what = {
        "both": f"{names} and the other hosts don't reach each other in either direction",
        "to": f"{other} can't connect to {names}",
        "from": f"{names} can't connect to {other}",
    }[way]
    end = "on it" if one else "on them"
    return rules.DC412.found(
        f"{what} {_on_ports(concerned, reach)}: {_outcomes(items)}",
        where=Where(host=compress_hosts(hosts)),
        evidence=_port_evidence(concerned, reach),
        fix=Fix(_opening(items, way, end, reach), by="admin", where="host"),
    )


def _of_pairs(blocked: Mapping[tuple[str, str], Sequence[ConnectionAttempt]], reach: Reach) -> Finding:
    items = [item for found in blocked.values() for item in found]
    hosts = sorted({host for pair in blocked for host in pair})
    return rules.DC412.found(
        f"connections fail {pair_text(items)} {_on_ports(blocked, reach)}: {_outcomes(items)}",
        where=Where(host=compress_hosts(hosts)),
        evidence=_port_evidence(blocked, reach),
        fix=Fix(_opening(items, "pairs", "between them", reach), by="admin", where="host"),
    )


def _between_all(blocked: Mapping[tuple[str, str], Sequence[ConnectionAttempt]], reach: Reach, tries: int) -> Finding:
    items = [item for found in blocked.values() for item in found]
    every = len(blocked) >= reach.hosts * tries
    groups = _groups(blocked, reach)
    hosts = sorted({host for pair in blocked for host in pair})
    if groups:
        what = "the hosts fall into groups that don't reach each other: " + " | ".join(
            shorten_hosts(group) for group in groups[:3]
        )
    elif every:
        what = f"no host can connect to another ({reach.hosts:,} hosts)"
    else:
        what = f"{len(blocked):,} of {reach.hosts * tries:,} tries between {reach.hosts:,} hosts fail"
    return rules.DC412.found(
        f"{what} {_on_ports(blocked, reach)}: {_outcomes(items)}",
        where=Where(host=compress_hosts(hosts)),
        evidence=_port_evidence(blocked, reach),
        fix=Fix(_opening(items, "pairs", "between all hosts", reach), by="admin", where="host"),
    )


def _groups(blocked: Mapping[tuple[str, str], Sequence[ConnectionAttempt]], reach: Reach) -> list[list[str]]:
    """Return groups of hosts that reach each other, if every pair was tried and there are few groups."""
    hosts = sorted({host for pair in blocked for host in pair})
    if not reach.complete or len(hosts) != reach.hosts:
        return []
    left, groups = set(hosts), []
    while left:
        group, edge = set(), [min(left)]
        while edge:
            host = edge.pop()
            group.add(host)
            edge.extend(
                other
                for other in left
                if other not in group and (host, other) not in blocked and (other, host) not in blocked
            )
        left -= group
        groups.append(sorted(group))
    return groups if 1 < len(groups) <= max(2, len(hosts) // 2) else []


def _on_ports(blocked: Mapping[tuple[str, str], Sequence[ConnectionAttempt]], reach: Reach) -> str:
    """Return the ports: all that were tried, or those between which it fails."""
    ports = sorted({item.port for items in blocked.values() for item in items})
    whole = all(len(items) >= max(1, reach.doors) for items in blocked.values())
    if whole or not reach.low_port:
        return "on any port that was tried" if whole else f"on port {ports[0]}" if len(ports) == 1 else "on some ports"
    span = f"port {ports[0]}" if len(ports) == 1 else f"ports from {ports[0]} to {ports[-1]}"
    return f"on {span}, while others of {reach.low_port}-{reach.high_port} are open"


def _outcomes(items: Sequence[ConnectionAttempt]) -> str:
    counts = Counter(item.outcome for item in items)
    texts = []
    for outcome, _ in counts.most_common(2):
        error = next((item.error for item in items if item.outcome == outcome and item.error), "")
        texts.append(
            {
                "timeout": "no answer, as where a firewall drops packets or a link is down",
                "refused": "refused, as where a firewall rejects",
                "no-route": error or "no route",
            }.get(outcome, error or "they fail")
        )
    return "; ".join(texts)


def _port_evidence(blocked: Mapping[tuple[str, str], Sequence[ConnectionAttempt]], reach: Reach) -> dict[str, object]:
    items = [item for found in blocked.values() for item in found]
    ports = sorted({item.port for item in items})
    pairs = sorted(blocked)
    return {
        "failed_connections": len(items),
        "pairs": len(pairs),
        "one_way_pairs": sum((target, source) not in blocked for source, target in pairs),
        "tried_connections": reach.tried,
        "complete": reach.complete,
        "lowest_port": ports[0],
        "highest_port": ports[-1],
        "outcomes": dict(sorted(Counter(item.outcome for item in items).items())),
        "examples": [f"{item.source} -> {item.target} {item.address} {item.port}" for item in items[:MOST_SHOWN]],
    }


def _opening(items: Sequence[ConnectionAttempt], way: str, end: str, reach: Reach) -> str:
    if all(item.outcome == "no-route" for item in items):
        address = items[0].address
        return (
            f"see on {items[0].source} which way it takes ('ip route get {address}', 'ip rule list') and have that way "
            "opened: its own kernel refuses it"
        )
    ports = f" ({reach.low_port}-{reach.high_port} was tried)" if reach.low_port else ""
    direction = {"to": f"incoming TCP {end}", "from": f"outgoing TCP {end}", "both": f"TCP {end}"}.get(
        way, f"TCP {end}"
    )
    return (
        f"have {direction} opened for all ports among the hosts of the job, since NCCL and gloo listen on ports that "
        f"the kernel chooses{ports}; or narrow net.ipv4.ip_local_port_range on all hosts to a range that is open"
    )
