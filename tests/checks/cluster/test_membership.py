"""What a host says that did not reach the first one, and what the first one says of those who should have come."""

from __future__ import annotations

import pytest

from distcheck.checks.cluster.membership import callers_reach_this_host, first_host_is_reached, hosts_mean_one_job
from distcheck.checks.cluster.membership_protocol import HostCheckIn, MembershipAnswer, MembershipProblem
from distcheck.checks.cluster.records import Caller, Roll
from distcheck.core.model import Finding, Severity

HERE = HostCheckIn("gpu01", 0, 8, 2)
THERE = HostCheckIn("gpu02", 1, 8, 2, "", "10.0.0.2")
COMPLETE = MembershipAnswer(Roll(2, 2, of="hosts"), (HERE, THERE), ranks=16, served=True, host="gpu01", node_rank=0)
ALONE = COMPLETE._replace(roll=Roll(2, 1, (1,), of="hosts"), callers=(HERE,), ranks=8)


def unreached(kind: str, detail: str = "", address: str = "10.0.0.1", own: bool = False) -> Finding:
    problem = MembershipProblem(kind, address, 29501, detail, own)
    (finding,) = first_host_is_reached(MembershipAnswer(None, problems=(problem,), host="gpu02", node_rank=1))
    assert finding.where.host == "gpu02"
    assert finding.evidence["outcome"] == kind
    return finding


def test_good_a_complete_roll_is_silent() -> None:
    # strangers knocked, and all that belong to the job are here
    knocked = COMPLETE._replace(problems=(MembershipProblem("other-run", "10.9.9.9", 29501, "other"),))
    for answer in (COMPLETE, knocked, COMPLETE._replace(served=False, host="gpu02", node_rank=1)):
        assert not list(first_host_is_reached(answer))
        assert not list(callers_reach_this_host(answer))
        assert not list(hosts_mean_one_job(answer))


def test_good_who_is_missing_is_said_from_the_roll() -> None:
    for answer in (ALONE, ALONE._replace(served=False)):
        assert not list(first_host_is_reached(answer))
        assert not list(callers_reach_this_host(answer))


@pytest.mark.parametrize(
    ("kind", "detail", "code", "says"),
    [
        ("timeout", "", "DC403", "does not answer: it is down, or a firewall drops the packets"),
        ("no-route", "Network is unreachable", "DC403", "can't be reached from here: Network is unreachable"),
        ("silent", "", "DC403", "something listens at 10.0.0.1:29501 and never answers"),
        ("closed", "it closed the connection", "DC403", "accepts connections and closes them at once"),
        ("foreign", "SSH (SSH-2.0-OpenSSH_9.2)", "DC403", "is held by SSH (SSH-2.0-OpenSSH_9.2), not by"),
        ("other-run", "gpu07", "DC403", "another run of distcheck has its membership check at 10.0.0.1:29501 on gpu07"),
        ("other-version", "distcheck 2.0 there, 1.0 here", "DC403", "distcheck 2.0 there, 1.0 here"),
        (
            "refused",
            "Connection refused",
            "DC501",
            "no membership check runs at 10.0.0.1:29501: its host answers",
        ),
        ("lost", "Connection reset by peer", "DC501", "answered at 10.0.0.1:29501 and then went away"),
        ("unresolvable", "Name or service not known", "DC404", "leads to no address: Name or service not known"),
        (
            "port-taken",
            "SSH is there",
            "DC401",
            "port 29501, on which it would run the membership check, is taken: SSH is there",
        ),
        ("port-privileged", "Permission denied", "DC402", "is privileged: Permission denied"),
        ("cannot-listen", "no buffers", "DC403", "can't listen on port 29501 to run the membership check: no buffers"),
    ],
)
def test_bad_every_kind_of_trouble_is_told(kind: str, detail: str, code: str, says: str) -> None:
    finding = unreached(kind, detail)
    assert (finding.code, finding.severity) == (code, Severity.ERROR)
    assert says in finding.message


def test_bad_dc403_the_command_names_an_address_and_never_a_name() -> None:
    assert unreached("timeout").fix.command == "ip route get 10.0.0.1"
    assert unreached("timeout", address="fe80::1%eth0").fix.command == "ip route get fe80::1"
    assert unreached("timeout", address="node0; reboot").fix.command is None
    assert "[fd00::1]:29501" in unreached("timeout", address="fd00::1").message


def test_bad_dc501_the_address_is_the_callers_own() -> None:
    finding = unreached("refused", own=True)
    assert "an address of this host itself, which is node 1" in finding.message
    assert "--node-rank 0" in finding.fix.text


def test_bad_dc103_hosts_expect_different_numbers() -> None:
    strange = HostCheckIn("gpu02", 1, 8, 3)
    answer = COMPLETE._replace(disagreeing=(strange,))
    (finding,) = hosts_mean_one_job(answer)
    assert finding.code == "DC103"
    assert finding.message == "gpu02 expects 3 hosts, and the first host expects 2"
    (finding,) = hosts_mean_one_job(answer._replace(disagreeing=(strange, HostCheckIn("gpu03", 2, 8, 4))))
    assert finding.message == "gpu[02-03] expect 3 or 4 hosts, and the first host expects 2"


@pytest.mark.parametrize(
    ("problem", "code", "says"),
    [
        (
            MembershipProblem("other-run", "10.0.0.2", 29501, "gpu02"),
            "DC403",
            "gpu02 (10.0.0.2) called this port for another run",
        ),
        (
            MembershipProblem("other-version", "10.0.0.2", 29501, "gpu02 runs 0.1"),
            "DC403",
            "is of another version: gpu02 runs 0.1",
        ),
        (MembershipProblem("not-own-address", "10.0.0.9", 29501), "DC403", "leads to another host (10.0.0.9)"),
        (
            MembershipProblem("open-files", "", 29501, "Too many open files, with 1000 callers"),
            "DC321",
            "with 1000 callers",
        ),
    ],
)
def test_bad_what_keeps_callers_from_the_first_host(problem: MembershipProblem, code: str, says: str) -> None:
    (finding,) = callers_reach_this_host(ALONE._replace(problems=(problem,)))
    assert finding.code == code
    assert says in finding.message
    assert finding.where.host == "gpu01"


def test_bad_surplus_alone_makes_a_roll_incomplete() -> None:
    roll = Roll(2, 2, surplus=(Caller(1, "gpu03"),), of="hosts")
    assert not COMPLETE._replace(roll=roll).complete
    assert COMPLETE.complete
