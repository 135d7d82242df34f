"""Ports, names and connections: what tells look-alikes apart, on timelines made by hand."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from distcheck.checks.logs import network
from distcheck.checks.logs.model import Event, LineAuthor, LogSource, RankStream, Timeline, Traceback, TracebackFrame
from distcheck.checks.logs.network import (
    gloo_has_an_interface,
    ipv6_is_noise,
    master_was_not_reached,
    name_was_not_found,
    port_is_taken,
    ranks_did_not_connect,
)
from distcheck.core.model import Finding, Severity
from distcheck.rules.signatures import Kind
from distcheck.rules.signatures.network import ROWS

MEETING = Traceback(
    (TracebackFrame("/x/site-packages/torch/distributed/rendezvous.py", 198, "f", "return TCPStore("),), "", ""
)
OWN = Traceback((TracebackFrame("/workspace/serve.py", 12, "main", "server.bind(address)"),), "OSError", "")


def event(
    signature: str, text: str = "", line: int = 1, *, rank: int | None = None, source: int = 0, **values: str
) -> Event:
    kind = next((row.kind for row in ROWS if row.name == signature), Kind.FAILURE)
    return Event(signature, kind, LineAuthor(rank=rank), source, line, None, text or signature, values)


def timeline(*events: Event, went_on: bool = False, hosts: Iterable[str] = (), lines: int = 200) -> Timeline:
    files = 1 + max((item.source for item in events), default=0)
    rank_streams = tuple(RankStream(LineAuthor(host=host), 0, 1, 1) for host in hosts)
    sources = tuple(LogSource(f"{number}.log", lines=lines) for number in range(files))
    return Timeline(sources, events, rank_streams, went_on=went_on)


def codes(findings: Iterable[Finding]) -> list[str]:
    return [finding.code for finding in findings]


TIMEOUT = {"host": "10.0.0.4", "port": "29500", "waited": "60000ms"}


@pytest.mark.parametrize(
    ("text", "traceback", "told"),
    [
        ("RuntimeError: Address already in use", None, True),
        ("OSError: [Errno 98] Address already in use", MEETING, True),
        ("OSError: [Errno 98] Address already in use", OWN, False),
        ("OSError: [Errno 98] Address already in use", None, False),
        ("[c10d] bind: Address already in use", None, True),
        ("uvicorn: address already in use", None, False),
    ],
)
def test_only_a_store_of_torch_counts(text: str, traceback: Traceback | None, told: bool) -> None:
    found = list(port_is_taken(timeline(event("address-in-use", text)._replace(traceback=traceback))))
    assert codes(found) == (["DC401"] if told else [])


def test_a_taken_port_is_told_once_for_all_ranks() -> None:
    (found,) = port_is_taken(timeline(*(event("port-taken", line=n, rank=n, port="29500") for n in (1, 2, 3))))
    assert "29500" in found.message and found.severity is Severity.ERROR
    assert found.evidence["ranks"] == "1-3"
    assert found.fix.command == "ss -ltnp 'sport = :29500'"


def test_a_taken_port_that_the_job_survived_is_a_remark() -> None:
    (found,) = port_is_taken(timeline(event("port-taken", port="29500"), went_on=True))
    assert found.severity is Severity.INFO and found.evidence["role"] == "context"


def test_what_one_address_of_two_refused_is_no_taken_port() -> None:
    assert not list(port_is_taken(timeline(event("bind-tried", port="29500", code="98"))))


def test_a_web_server_on_the_port_is_named() -> None:
    (found,) = port_is_taken(timeline(event("port-of-another", got="1347703880")))
    assert "web server" in found.message


@pytest.mark.parametrize(
    ("code", "told"), [("-2", "DC404"), ("-3", "DC404"), ("8", "DC404"), ("11001", "DC404"), ("-9", "DC403")]
)
def test_a_name_that_nobody_knows_is_why_the_master_was_not_reached(code: str, told: str) -> None:
    lookup = event("name-unresolved", line=1, host="10.0.0.4", port="29500", code=code, why="Name or service not known")
    assert codes(master_was_not_reached(timeline(lookup, event("client-timeout", line=2, **TIMEOUT)))) == [told]


def test_a_try_that_is_repeated_is_no_failure() -> None:
    lines = [event("client-retry", line=4, host="10.0.0.4", port="29500"), event("client-timeout", line=4, **TIMEOUT)]
    assert not list(master_was_not_reached(timeline(*lines)))


def test_nothing_is_told_of_a_job_that_went_on() -> None:
    events = [event("client-timeout", **TIMEOUT), event("gloo-connect", line=2, address="10.0.0.5", port="4000")]
    assert not list(master_was_not_reached(timeline(*events, went_on=True)))
    assert not list(ranks_did_not_connect(timeline(*events, went_on=True)))


def test_a_master_that_had_died_is_no_matter_of_the_network() -> None:
    died = event("exception", "KeyError: 'lr'", 1, rank=0)
    waited = event("client-timeout", line=9, rank=1, **TIMEOUT)
    (found,) = master_was_not_reached(timeline(died, waited))
    assert found.evidence["role"] == "timeout"
    (alone,) = master_was_not_reached(timeline(waited))
    assert alone.evidence["role"] == "cause"


@pytest.mark.parametrize(
    ("why", "word"),
    [
        ("Connection refused", "refused"),
        ("No route to host", "No route to host"),
        ("Connection timed out", "timed out"),
    ],
)
def test_the_answer_of_the_network_is_told(why: str, word: str) -> None:
    tried = event("client-tried", line=1, host="10.0.0.4", port="29500", code="1", why=why)
    (found,) = master_was_not_reached(timeline(tried, event("client-timeout", line=2, **TIMEOUT)))
    assert word in found.message


def test_a_refusal_of_users_own_connections_is_none_of_ours() -> None:
    refused = event("connect-failed", "ConnectionRefusedError: [Errno 111] Connection refused")._replace(traceback=OWN)
    assert not list(master_was_not_reached(timeline(refused)))


def test_all_nodes_without_a_host_of_the_rendezvous() -> None:
    events = [
        event(name, line=line, source=n, **(TIMEOUT if name == "client-timeout" else {}))
        for n in (0, 1)
        for line, name in enumerate(("client-timeout", "rendezvous-connection"), 4)
    ]
    assert codes(master_was_not_reached(timeline(*events))) == ["DC408"]
    served = event("store-host", line=50, source=0)
    assert codes(master_was_not_reached(timeline(*events, served))) == ["DC403"]


def test_dockers_bridge_leads_to_no_other_machine() -> None:
    waited = event("client-timeout", **{**TIMEOUT, "host": "172.17.0.2"})
    assert codes(master_was_not_reached(timeline(waited, hosts=("a", "b")))) == ["DC411"]
    assert codes(master_was_not_reached(timeline(waited, hosts=("a",)))) == ["DC403"]
    own_end = event("client-timeout", **{**TIMEOUT, "host": "172.17.0.1"})
    assert codes(master_was_not_reached(timeline(own_end, hosts=("a", "b")))) == ["DC403"]


def test_a_log_that_ends_while_it_waits() -> None:
    tries = event("client-tried", line=198, host="node01", port="29500", code="111", why="Connection refused")
    assert codes(master_was_not_reached(timeline(tries._replace(repeated=8)))) == ["DC403"]
    assert not list(master_was_not_reached(timeline(tries._replace(repeated=8, line=20))))
    lookups = event(
        "name-unresolved", line=198, host="node01", port="29500", code="-2", why="Name or service not known"
    )
    assert codes(name_was_not_found(timeline(lookups._replace(repeated=8)))) == ["DC404"]
    assert not list(name_was_not_found(timeline(lookups)))


def test_other_programs_look_up_names_as_well() -> None:
    asked = event("name-exception", "socket.gaierror: [Errno -3] Temporary failure", code="-3")
    assert not list(name_was_not_found(timeline(asked._replace(traceback=OWN))))
    assert codes(name_was_not_found(timeline(asked._replace(traceback=MEETING)))) == ["DC404"]


@pytest.mark.parametrize(
    ("address", "hosts", "told"),
    [
        ("127.0.1.1", ("a", "b"), ["DC405"]),
        ("127.0.1.1", ("a",), []),
        ("10.0.0.5", ("a", "b"), ["DC412"]),
        ("172.17.0.3", ("a", "b"), ["DC411"]),
    ],
)
def test_the_address_tells_why_ranks_did_not_connect(address: str, hosts: tuple[str, ...], told: list[str]) -> None:
    failed = event("gloo-connect", address=address, port="41877", why="Connection refused", rank=1)
    assert codes(ranks_did_not_connect(timeline(failed, hosts=hosts))) == told


def test_a_peer_that_died_refuses() -> None:
    died = event("exception", "KeyError: 'lr'", 1, rank=0)
    failed = event("nccl-connect", line=5, address="10.0.0.5", port="41877", why="Connection refused", rank=1)
    assert not list(ranks_did_not_connect(timeline(died, failed)))
    assert codes(ranks_did_not_connect(timeline(failed, died._replace(line=9)))) == ["DC412"]


def test_connections_that_are_tried_without_end() -> None:
    tries = event("nccl-connect-tried", address="10.0.0.5", port="41877", why="Connection timed out")
    assert codes(ranks_did_not_connect(timeline(tries._replace(repeated=20)))) == ["DC412"]
    assert not list(ranks_did_not_connect(timeline(tries)))
    assert not list(ranks_did_not_connect(timeline(tries._replace(values={"why": "Connection refused"}, repeated=20))))


def test_gloos_variable_takes_no_list() -> None:
    (found,) = gloo_has_an_interface(timeline(event("gloo-interface", name="^lo,docker")))
    assert found.code == "DC407" and "list" in found.message
    (number,) = gloo_has_an_interface(timeline(event("gloo-interface", address="0.0.0.17")))
    assert number.code == "DC405"


def test_noise_is_never_above_info() -> None:
    (found,) = ipv6_is_noise(timeline(event("ipv6-noise"), event("reverse-name-noise", line=2)))
    assert found.severity is Severity.INFO and found.evidence["role"] == "context"
    assert not list(ipv6_is_noise(timeline(event("name-unresolved", code="-2", host="a", port="1"))))


def test_what_a_log_says_is_not_put_into_commands_unread() -> None:
    waited = event("client-timeout", **{**TIMEOUT, "host": "$(reboot)"})
    (found,) = master_was_not_reached(timeline(waited))
    assert found.fix.command is None
    assert "$(reboot)" in found.message


def test_the_family_names_signatures_that_exist() -> None:
    assert set(network._FAMILY) <= {row.name for row in ROWS}


def test_gloo_says_itself_when_it_tries_no_more() -> None:
    tried = event("gloo-tried", again="1", address="10.0.0.5", port="41877")
    assert not list(ranks_did_not_connect(timeline(tried)))
    assert codes(ranks_did_not_connect(timeline(tried, event("gloo-tried", line=2, **{**tried.values, "again": "0"}))))


def test_one_port_is_taken_once_with_and_without_its_number() -> None:
    tried, bare = event("bind-tried", port="29500"), event("port-taken", line=3)
    (found,) = port_is_taken(timeline(tried, bare, event("port-taken", line=9, port="29500")))
    assert "29500" in found.message


def test_a_list_of_nodes_is_no_name() -> None:
    address = {"host": "gpu[01-04]", "port": "29500", "waited": "900s"}
    lookup = event("name-unresolved", host="gpu[01-04]", code="-2", why="Name or service not known")
    (found,) = master_was_not_reached(timeline(lookup, event("client-timeout", line=9, **address)))
    assert found.code == "DC404" and "scontrol show hostnames" in str(found.fix.command)
