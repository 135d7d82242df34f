"""Whether all hosts came to the roll, as each of them saw it: what a host says that could not call it, or was told no.

Who is missing by number is judged from ``Roll``, where ranks are judged as well; here stands why this host could not
reach the first one, and what made the hosts contradict each other. The call itself is ``roll_call.py``.
"""

from __future__ import annotations

from collections.abc import Iterator

from distcheck import rules
from distcheck.checks.host.addresses import is_address
from distcheck.core.model import Finding, Fix, Severity, Where
from distcheck.core.registry import probe

from .hostlist import compress_hosts, shorten_hosts
from .membership_check import MembershipAnswer, MembershipProblem

#: Why the first host itself could not call the roll.
_LISTENING = frozenset({"port-taken", "port-privileged", "cannot-listen"})
#: What follows once the roll is complete is no trouble, whoever else knocked.
_AT_THE_SERVER = frozenset({"other-run", "other-version", "not-own-address", "open-files"})


@probe(rules.DC401, rules.DC402, rules.DC403, rules.DC404, rules.DC501)
def first_host_is_reached(answer: MembershipAnswer) -> Iterator[Finding]:
    """This host reached the one that calls the roll."""
    if answer.served or answer.roll is not None:
        return
    for trouble in answer.troubles:
        yield _not_listening(trouble, answer) if trouble.kind in _LISTENING else _not_reached(trouble, answer)


@probe(rules.DC403, rules.DC321)
def callers_reach_this_host(answer: MembershipAnswer) -> Iterator[Finding]:
    """Nothing at the host that calls the roll keeps the others away."""
    if not answer.served or answer.complete:
        return
    for trouble in answer.troubles:
        if trouble.kind in _AT_THE_SERVER:
            yield _kept_away(trouble, answer)


@probe(rules.DC103)
def hosts_mean_one_job(answer: MembershipAnswer) -> Iterator[Finding]:
    """All hosts expect the same number of hosts."""
    if not answer.disagreeing or answer.roll is None:
        return
    hosts = [call.host for call in answer.disagreeing]
    counts = sorted({call.host_count for call in answer.disagreeing if call.host_count is not None})
    yield rules.DC103.found(
        f"{shorten_hosts(hosts)} expect{'s' * (len(hosts) == 1)} {_words(counts)} hosts, and the first host expects "
        f"{answer.roll.world_size}",
        where=Where(host=compress_hosts(hosts), variable="--nnodes"),
        evidence={"host_counts": counts, "first_host_count": answer.roll.world_size, "hosts": len(hosts)},
        fix=Fix("give the same --nnodes on every host", where="launch-line"),
    )


def _words(counts: list[int]) -> str:
    return " or ".join(map(str, counts[:3])) or "another number of"


def _place(trouble: MembershipProblem) -> str:
    return f"[{trouble.address}]:{trouble.port}" if ":" in trouble.address else f"{trouble.address}:{trouble.port}"


def _not_listening(trouble: MembershipProblem, answer: MembershipAnswer) -> Finding:
    """This host should take the calls of the others, and can't."""
    where = Where(host=answer.host or None, phase="roll")
    evidence = {"port": trouble.port, "outcome": trouble.kind, "detail": trouble.detail}
    text = "give all hosts another port that is free on the first one (--roll-port)"
    if trouble.kind == "port-taken":
        return rules.DC401.found(
            f"this host is the first one, and port {trouble.port}, on which it would call the roll, is taken"
            + (f": {trouble.detail}" if trouble.detail else ""),
            where=where,
            evidence=evidence,
            fix=Fix(text, where="launch-line"),
        )
    if trouble.kind == "port-privileged":
        return rules.DC402.found(
            f"port {trouble.port}, on which this host would call the roll, is a privileged one: {trouble.detail}",
            severity=Severity.ERROR,
            where=where,
            evidence=evidence,
            fix=Fix(f"{text}, from 1024 on", where="launch-line"),
        )
    return rules.DC403.found(
        f"this host can't listen on port {trouble.port} to call the roll: {trouble.detail}",
        where=where,
        evidence=evidence,
        fix=Fix(text, where="launch-line"),
    )


def _not_reached(trouble: MembershipProblem, answer: MembershipAnswer) -> Finding:
    place = _place(trouble)
    where = Where(host=answer.host or None, peer=trouble.address, phase="roll")
    evidence = {
        "address": trouble.address,
        "port": trouble.port,
        "outcome": trouble.kind,
        "detail": trouble.detail,
        "node_rank": answer.node_rank,
    }
    kind = trouble.kind
    way = f"ip route get {trouble.address.split('%')[0]}" if is_address(trouble.address) else None
    if kind == "unresolvable":
        return rules.DC404.found(
            f"{trouble.address} leads to no address: {trouble.detail}",
            where=where,
            evidence=evidence,
            fix=Fix("give the address of the first host in place of its name", where="launch-line"),
        )
    if kind == "refused":
        message = f"no membership check runs at {place}: its host answers, and the first host's distcheck does not"
        text = (
            "start the same command on the first host within the time limit (--timeout), with the same address and "
            "port; where it runs there, a firewall rejects this port"
        )
        if trouble.own:
            rank = "" if answer.node_rank is None else f", which is node {answer.node_rank}"
            message = f"no membership check was started at {place}, an address of this host itself{rank}"
            text = "give the address of the host with --node-rank 0; here it is another host's turn to be the first"
        return rules.DC501.found(message, where=where, evidence=evidence, fix=Fix(text, where="launch-line"))
    if kind == "lost":
        return rules.DC501.found(
            f"the first host answered at {place} and then went away: {trouble.detail}",
            where=where,
            evidence=evidence,
            fix=Fix("see on the first host what became of distcheck there, and start all hosts again", where="host"),
        )
    said, fix = {
        "timeout": (
            f"{place} does not answer: it is down, or a firewall drops the packets",
            Fix(
                "see that the address is the one that the first host has in the network of all hosts, and have the "
                "port opened between the hosts" + ("; this shows the way that this host takes" if way else ""),
                command=way,
                where="host",
            ),
        ),
        "no-route": (
            f"{place} can't be reached from here: {trouble.detail}",
            Fix(
                "see that the address is the one that the first host has in the network of all hosts"
                + ("; this shows the way that this host takes" if way else ""),
                command=way,
                where="host",
            ),
        ),
        "silent": (
            f"something listens at {place} and never answers, which is not distcheck's roll call",
            Fix(
                "take another port on all hosts (--roll-port), or end what listens there on the first host",
                where="launch-line",
            ),
        ),
        "closed": (
            f"{place} takes connections and closes them at once ({trouble.detail}), which is not distcheck's roll call",
            Fix(
                "see whether a proxy or a load balancer stands before the first host, and give its own address, or "
                "take another port on all hosts (--roll-port)",
                where="launch-line",
            ),
        ),
        "foreign": (
            f"{place} is held by {trouble.detail}, not by distcheck's roll call",
            Fix("take another port on all hosts (--roll-port)", where="launch-line"),
        ),
        "other-run": (
            f"at {place} another run of distcheck calls its roll{f' on {trouble.detail}' if trouble.detail else ''}",
            Fix(
                "give all hosts of one run the same rendezvous and port, and two runs on one host different ports",
                where="launch-line",
            ),
        ),
        "other-version": (
            f"the roll call at {place} is of another version: {trouble.detail}",
            Fix("install the same version of distcheck on all hosts", where="host"),
        ),
    }[kind]
    return rules.DC403.found(said, where=where, evidence=evidence, fix=fix)


def _kept_away(trouble: MembershipProblem, answer: MembershipAnswer) -> Finding:
    evidence = {"address": trouble.address, "port": trouble.port, "outcome": trouble.kind, "detail": trouble.detail}
    where = Where(host=answer.host or None, peer=trouble.address, phase="roll")
    caller = f"{trouble.detail} ({trouble.address})" if trouble.detail else trouble.address
    if trouble.kind == "open-files":
        return rules.DC321.found(
            f"this host can't take more callers: {trouble.detail}",
            severity=Severity.WARNING,
            where=Where(host=answer.host or None, phase="roll"),
            evidence=evidence,
            fix=Fix("raise the hard limit of open files on the first host", command=None, by="admin", where="host"),
        )
    if trouble.kind == "other-version":
        message = f"a caller at {trouble.address} is of another version: {trouble.detail}"
        fix = Fix("install the same version of distcheck on all hosts", where="host")
    elif trouble.kind == "other-run":
        message = f"{caller} called this port for another run, and was not counted"
        fix = Fix(
            "give all hosts of one run the same rendezvous and port, and two runs different ports", where="launch-line"
        )
    else:
        message = (
            f"this host is the first one, and the address that all call leads elsewhere ({trouble.address}): nobody "
            "who calls there finds it"
        )
        fix = Fix(
            "give an address of this host to all hosts, or node rank 0 to the host that has it", where="launch-line"
        )
    return rules.DC403.found(message, where=where, evidence=evidence, fix=fix)
