"""Reports whether all hosts joined the membership check, as each of them saw it.

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
from .membership_protocol import MembershipAnswer, MembershipProblem

#: Why the first host itself could not run the membership check.
_LISTENING = frozenset({"port-taken", "port-privileged", "cannot-listen"})
#: Problems that are none once the check is complete, whichever other process connected.
_AT_THE_SERVER = frozenset({"other-run", "other-version", "not-own-address", "open-files"})


@probe(rules.DC401, rules.DC402, rules.DC403, rules.DC404, rules.DC501)
def first_host_is_reached(answer: MembershipAnswer) -> Iterator[Finding]:
    """Report that this host did not reach the one that runs the membership check."""
    if answer.served or answer.roll is not None:
        return
    for problem in answer.problems:
        yield _not_listening(problem, answer) if problem.kind in _LISTENING else _not_reached(problem, answer)


@probe(rules.DC403, rules.DC321)
def callers_reach_this_host(answer: MembershipAnswer) -> Iterator[Finding]:
    """Report what keeps the others away from the host that runs the membership check."""
    if not answer.served or answer.complete:
        return
    for problem in answer.problems:
        if problem.kind in _AT_THE_SERVER:
            yield _kept_away(problem, answer)


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


def _address(problem: MembershipProblem) -> str:
    return f"[{problem.address}]:{problem.port}" if ":" in problem.address else f"{problem.address}:{problem.port}"


def _not_listening(problem: MembershipProblem, answer: MembershipAnswer) -> Finding:
    """This host should take the calls of the others, and can't."""
    text = "give all hosts another port that is free on the first one (--roll-port)"
    if problem.kind == "port-taken":
        rule = rules.DC401
        message = (
            f"this host is the first one, and port {problem.port}, on which it would run the membership check, is taken"
            + (f": {problem.detail}" if problem.detail else "")
        )
    elif problem.kind == "port-privileged":
        rule, text = rules.DC402, f"{text}, from 1024 on"
        message = (
            f"port {problem.port}, on which this host would run the membership check, is privileged: {problem.detail}"
        )
    else:
        rule = rules.DC403
        message = f"this host can't listen on port {problem.port} to run the membership check: {problem.detail}"
    return rule.found(
        message,
        severity=Severity.ERROR,
        where=Where(host=answer.host or None, phase="roll"),
        evidence={"port": problem.port, "outcome": problem.kind, "detail": problem.detail},
        fix=Fix(text, where="launch-line"),
    )


def _not_reached(problem: MembershipProblem, answer: MembershipAnswer) -> Finding:
    place = _address(problem)
    where = Where(host=answer.host or None, peer=problem.address, phase="roll")
    evidence = {
        "address": problem.address,
        "port": problem.port,
        "outcome": problem.kind,
        "detail": problem.detail,
        "node_rank": answer.node_rank,
    }
    kind = problem.kind
    way = f"ip route get {problem.address.split('%')[0]}" if is_address(problem.address) else None
    if kind == "refused":
        message = f"no membership check runs at {place}: its host answers, and the first host's distcheck does not"
        text = (
            "start the same command on the first host within the time limit (--timeout), with the same address and "
            "port; where it runs there, a firewall rejects this port"
        )
        if problem.own:
            rank = "" if answer.node_rank is None else f", which is node {answer.node_rank}"
            message = f"no membership check was started at {place}, an address of this host itself{rank}"
            text = "give the address of the host with --node-rank 0; here it is another host's turn to be the first"
        return rules.DC501.found(message, where=where, evidence=evidence, fix=Fix(text, where="launch-line"))
    message, fix = {
        "unresolvable": (
            f"{problem.address} leads to no address: {problem.detail}",
            Fix("give the address of the first host in place of its name", where="launch-line"),
        ),
        "lost": (
            f"the first host answered at {place} and then went away: {problem.detail}",
            Fix("see on the first host what became of distcheck there, and start all hosts again", where="host"),
        ),
        "timeout": (
            f"{place} does not answer: it is down, or a firewall drops the packets",
            Fix(
                "give the address of the first host in the network that all hosts share, and have the port opened "
                "between the hosts" + ("; this shows the route of this host" if way else ""),
                command=way,
                where="host",
            ),
        ),
        "no-route": (
            f"{place} can't be reached from here: {problem.detail}",
            Fix(
                "give the address of the first host in the network that all hosts share"
                + ("; this shows the route of this host" if way else ""),
                command=way,
                where="host",
            ),
        ),
        "silent": (
            f"something listens at {place} and never answers; it is not distcheck's membership check",
            Fix(
                "take another port on all hosts (--roll-port), or end what listens there on the first host",
                where="launch-line",
            ),
        ),
        "closed": (
            f"{place} accepts connections and closes them at once ({problem.detail}); it is not distcheck's membership "
            "check",
            Fix(
                "give the first host's own address if a proxy or a load balancer answers for it, or "
                "another port on all hosts (--roll-port)",
                where="launch-line",
            ),
        ),
        "foreign": (
            f"{place} is held by {problem.detail}, not by distcheck's membership check",
            Fix("take another port on all hosts (--roll-port)", where="launch-line"),
        ),
        "other-run": (
            f"another run of distcheck has its membership check at {place}"
            + (f" on {problem.detail}" if problem.detail else ""),
            Fix(
                "give all hosts of one run the same rendezvous, port and token, and two runs on a host different ports",
                where="launch-line",
            ),
        ),
        "other-version": (
            f"the membership check at {place} is of another version: {problem.detail}",
            Fix("install the same version of distcheck on all hosts", where="host"),
        ),
    }[kind]
    rule = {"unresolvable": rules.DC404, "lost": rules.DC501}.get(kind, rules.DC403)
    return rule.found(message, where=where, evidence=evidence, fix=fix)


def _kept_away(problem: MembershipProblem, answer: MembershipAnswer) -> Finding:
    evidence = {"address": problem.address, "port": problem.port, "outcome": problem.kind, "detail": problem.detail}
    where = Where(host=answer.host or None, peer=problem.address, phase="roll")
    caller = f"{problem.detail} ({problem.address})" if problem.detail else problem.address
    if problem.kind == "open-files":
        return rules.DC321.found(
            f"this host can't take more callers: {problem.detail}",
            severity=Severity.WARNING,
            where=Where(host=answer.host or None, phase="roll"),
            evidence=evidence,
            fix=Fix("raise the hard limit of open files on the first host", command=None, by="admin", where="host"),
        )
    if problem.kind == "other-version":
        message = f"a caller at {problem.address} is of another version: {problem.detail}"
        fix = Fix("install the same version of distcheck on all hosts", where="host")
    elif problem.kind == "other-run":
        message = f"{caller} called this port for another run, and was not counted"
        fix = Fix(
            "give all hosts of one run the same rendezvous, port and token, and two runs different ports",
            where="launch-line",
        )
    else:
        message = (
            f"this host is the first one, but the common address leads to another host ({problem.address}): no host "
            "finds it there"
        )
        fix = Fix(
            "give an address of this host to all hosts, or node rank 0 to the host that has it", where="launch-line"
        )
    return rules.DC403.found(message, where=where, evidence=evidence, fix=fix)
