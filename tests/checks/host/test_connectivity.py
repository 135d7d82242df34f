"""Reaching the master, IPv6, and proxies."""

from __future__ import annotations

import errno
import shlex
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck.checks.host import connectivity
from distcheck.checks.host.connectivity import (
    MasterReach,
    ipv6_is_whole,
    master_is_reachable,
    no_proxy_before_etcd,
    read_master_reach,
)
from distcheck.checks.host.hostnames import MasterName, Name
from distcheck.checks.host.interfaces import Interface, Interfaces
from distcheck.checks.host.platform import Platform
from distcheck.core.model import Severity, Unavailable
from distcheck.core.world import World
from distcheck.launch.command import parse_command
from distcheck.launch.model import Launch
from distcheck.launch.reader import make_launch
from distcheck.launch.settings import Setting, Settings
from tests.recorded import recorded_world

LINUX = Platform("linux")
LAN = Interfaces((Interface("lo", ("127.0.0.1",), loopback=True), Interface("eth0", ("10.0.0.5", "fe80::5%eth0"))))
DUAL = Interfaces((Interface("eth0", ("10.0.0.5", "2001:db8::5")),))


def planned(line: str, **environ: str) -> Launch:
    return make_launch(environ, command=parse_command(shlex.split(line), environ))


CLIENT = planned("torchrun --nnodes=2 --node-rank=1 --master-addr=node0 --master-port=29500 train.py")
C10D = planned("torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=node0:29400 train.py")
STANDALONE = planned("torchrun --standalone train.py")
MASTER = MasterName(Name("node0", ("10.0.0.4",)), "--master-addr")
ADDRESS = MasterName(Name("10.0.0.4", ("10.0.0.4",)), "--master-addr")


def master(*addresses: str) -> MasterName:
    return MasterName(Name("node0", addresses))


# DC403


@pytest.mark.parametrize(
    ("found", "severity", "message"),
    [
        pytest.param(
            MasterReach("10.0.0.4", 29500, "timeout", None, 3.0),
            Severity.ERROR,
            "10.0.0.4:29500 (node0) did not",
            id="timeout",
        ),
        pytest.param(
            MasterReach("10.0.0.4", 29500, "no-route", "No route to host"),
            Severity.ERROR,
            "No route to host",
            id="no route",
        ),
        pytest.param(
            MasterReach("2001:db8::4", 29500, "no-route", "Network is unreachable"),
            Severity.ERROR,
            "[2001:db8::4]:29500",
            id="IPv6",
        ),
        pytest.param(
            MasterReach("10.0.0.4", 29500, "refused"), Severity.INFO, "no process listens", id="not started yet"
        ),
    ],
)
def test_bad_master_reach(found: MasterReach, severity: Severity, message: str) -> None:
    (finding,) = master_is_reachable(MASTER, found, LINUX)
    assert (finding.code, finding.severity) == ("DC403", severity)
    assert message in finding.message


@pytest.mark.parametrize("outcome", ["connected", "not-tried"])
def test_good_master_reach(outcome: str) -> None:
    found = list(master_is_reachable(MASTER, MasterReach("10.0.0.4", 29500, outcome), LINUX))
    assert [finding.code for finding in found if finding.code == "DC403"] == []


def test_the_route_is_asked_for_only_on_linux() -> None:
    found = MasterReach("fe80::4%eth0", 29500, "timeout", None, 3.0)
    (finding,) = master_is_reachable(ADDRESS, found, LINUX)
    assert finding.fix.command == "ip route get fe80::4"
    for platform in (Platform("darwin"), Unavailable("unknown")):
        (finding,) = master_is_reachable(ADDRESS, found, platform)
        assert finding.fix.command is None


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        ("", "connected"),
        (errno.ECONNREFUSED, "refused"),
        (errno.ETIMEDOUT, "timeout"),
        (errno.EHOSTUNREACH, "no-route"),
        (errno.ENETUNREACH, "no-route"),
        (errno.EACCES, "no-route"),
    ],
)
def test_what_comes_of_connecting(tmp_path: Path, said: object, outcome: str) -> None:
    world = recorded_world(tmp_path, listeners={"10.0.0.4:29500": said})
    found = read_master_reach(world, CLIENT, MASTER, LAN)
    assert (found.address, found.port, found.outcome) == ("10.0.0.4", 29500, outcome)
    assert (found.error is not None) == (outcome == "no-route")


@pytest.mark.parametrize(
    ("first", "second", "address", "outcome"),
    [
        (errno.ENETUNREACH, "", "10.0.0.4", "connected"),
        (errno.ENETUNREACH, errno.ECONNREFUSED, "10.0.0.4", "refused"),
        ("", errno.ECONNREFUSED, "2001:db8::4", "connected"),
        (errno.ECONNREFUSED, errno.ETIMEDOUT, "2001:db8::4", "refused"),
    ],
)
def test_the_best_of_several_addresses_counts(
    tmp_path: Path, first: object, second: object, address: str, outcome: str
) -> None:
    world = recorded_world(tmp_path, listeners={"2001:db8::4:29500": first, "10.0.0.4:29500": second})
    found = read_master_reach(world, CLIENT, master("2001:db8::4", "10.0.0.4"), LAN)
    assert (found.address, found.outcome) == (address, outcome)


@pytest.mark.parametrize(
    ("launch", "name"),
    [
        pytest.param(STANDALONE, MasterName(Name("localhost", ("127.0.0.1",))), id="one node"),
        pytest.param(CLIENT._replace(node_rank=0), MASTER, id="this host serves"),
        pytest.param(C10D, master("10.0.0.5"), id="the address is ours"),
        pytest.param(CLIENT, master("127.0.0.1"), id="loopback is DC419"),
        pytest.param(CLIENT, MasterName(Name("node0", error="unknown")), id="no address is DC404"),
        pytest.param(CLIENT._replace(master_port=None), MASTER, id="no port"),
        pytest.param(
            make_launch({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "node0", "MASTER_PORT": "29500"})._replace(
                nnodes=2
            ),
            MASTER,
            id="rank 0",
        ),
    ],
)
def test_who_does_not_connect(tmp_path: Path, launch: Launch, name: MasterName) -> None:
    world = recorded_world(tmp_path, listeners={"10.0.0.4:29500": errno.ETIMEDOUT})
    found = read_master_reach(world, launch, name, LAN)
    assert found.outcome == "not-tried"
    assert found.why
    assert list(master_is_reachable(name, found, LINUX)) == []


def test_who_connects(tmp_path: Path) -> None:
    world = recorded_world(tmp_path, listeners={"10.0.0.4:29500": "", "10.0.0.4:29400": ""})
    worker = make_launch({"RANK": "2", "WORLD_SIZE": "4", "MASTER_ADDR": "node0", "MASTER_PORT": "29500"})._replace(
        nnodes=2
    )
    for launch in (CLIENT, C10D, worker, worker._replace(agent_store=True)):
        assert read_master_reach(world, launch, MASTER, Unavailable("no netifaces")).outcome == "connected"


def test_no_launch_is_not_checked(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no launch"):
        read_master_reach(recorded_world(tmp_path), Launch(), MASTER, LAN)


def test_a_real_listener_and_a_real_refusal() -> None:
    elsewhere = MasterName(Name("127.0.0.1", ("127.0.0.1",)))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert connectivity._connect(World({}), elsewhere.name.addresses[0], port, 1.0) == ("connected", None)
    assert connectivity._connect(World({}), elsewhere.name.addresses[0], port, 1.0) == ("refused", None)


# DC409


@pytest.mark.parametrize(
    ("name", "interfaces", "message"),
    [
        pytest.param(master("2001:db8::4", "10.0.0.4"), LAN, "goes on with 10.0.0.4", id="no IPv6 address here"),
        pytest.param(
            master("2001:db8::4", "10.0.0.4"), LAN._replace(ipv6_disabled=True), "disabled", id="IPv6 is disabled here"
        ),
        pytest.param(master("2001:db8::4"), LAN, "no IPv4 address", id="nothing else to go on with"),
        pytest.param(master("fe80::4", "10.0.0.4"), DUAL, "link-local", id="link-local address without an interface"),
    ],
)
def test_bad_ipv6(name: MasterName, interfaces: Interfaces, message: str) -> None:
    (finding,) = ipv6_is_whole(CLIENT, name, interfaces)
    assert (finding.code, finding.severity) == ("DC409", Severity.INFO)
    assert message in finding.message


@pytest.mark.parametrize(
    ("launch", "name", "interfaces"),
    [
        pytest.param(CLIENT, MASTER, LAN, id="IPv4 alone"),
        pytest.param(CLIENT, master("2001:db8::4", "10.0.0.4"), DUAL, id="IPv6 on both sides"),
        pytest.param(CLIENT, master("fe80::4%eth0"), DUAL, id="link-local with its interface"),
        pytest.param(CLIENT, master("::1", "127.0.0.1"), LAN, id="localhost of a container without IPv6"),
        pytest.param(STANDALONE, master("2001:db8::4"), LAN, id="one node"),
    ],
)
def test_good_ipv6(launch: Launch, name: MasterName, interfaces: Interfaces) -> None:
    found = list(ipv6_is_whole(launch, name, interfaces))
    assert [finding.code for finding in found if finding.code == "DC409"] == []


# DC124

ETCD = planned("torchrun --nnodes=2 --rdzv-backend=etcd-v2 --rdzv-endpoint=etcd.lan:2379 train.py")
PROXY = Setting("http_proxy", "http://***@proxy:3128")


@pytest.mark.parametrize(
    ("launch", "settings", "variable"),
    [
        pytest.param(ETCD, Settings((PROXY,)), "http_proxy", id="nothing exempt"),
        pytest.param(
            ETCD, Settings((PROXY, Setting("no_proxy", "localhost,other.lan"))), "http_proxy", id="others exempt"
        ),
        pytest.param(ETCD, Settings((Setting("ALL_PROXY", "socks5://p"),)), "ALL_PROXY", id="for all protocols"),
        pytest.param(
            ETCD._replace(rdzv_conf={"protocol": "https"}),
            Settings((Setting("HTTPS_PROXY", "http://p"),)),
            "HTTPS_PROXY",
            id="TLS",
        ),
    ],
)
def test_bad_proxy(launch: Launch, settings: Settings, variable: str) -> None:
    (finding,) = no_proxy_before_etcd(launch, settings)
    assert (finding.code, finding.severity) == ("DC124", Severity.INFO)
    assert finding.where.variable == variable
    assert finding.fix.command is not None
    assert finding.fix.command.endswith('etcd.lan"')


@pytest.mark.parametrize(
    ("launch", "settings"),
    [
        pytest.param(CLIENT, Settings((PROXY,)), id="static is plain TCP"),
        pytest.param(C10D, Settings((PROXY,)), id="c10d is plain TCP"),
        pytest.param(Launch(), Settings((PROXY,)), id="no launch"),
        pytest.param(ETCD, Settings(), id="no proxy"),
        pytest.param(ETCD, Settings((PROXY._replace(value=""),)), id="empty"),
        pytest.param(ETCD, Settings((PROXY, Setting("no_proxy", "a, .lan"))), id="its domain is exempt"),
        pytest.param(ETCD, Settings((PROXY, Setting("NO_PROXY", "ETCD.lan:2379"))), id="itself with a port"),
        pytest.param(ETCD, Settings((PROXY, Setting("no_proxy", "*"))), id="all"),
        pytest.param(ETCD._replace(rdzv_endpoint="localhost:2379"), Settings((PROXY,)), id="on this host"),
        pytest.param(ETCD._replace(rdzv_conf={"protocol": "https"}), Settings((PROXY,)), id="another protocol's proxy"),
    ],
)
def test_good_proxy(launch: Launch, settings: Settings) -> None:
    found = list(no_proxy_before_etcd(launch, settings))
    assert [finding.code for finding in found if finding.code == "DC124"] == []


@given(st.text(alphabet="abc.*:, "), st.from_regex(r"[a-c]{1,3}(\.[a-c]{1,3}){0,2}", fullmatch=True))
def test_a_host_that_is_added_is_exempt(no_proxy: str, host: str) -> None:
    assert connectivity._is_exempt(host, f"{no_proxy},{host}")
    assert not connectivity._is_exempt("node.example", no_proxy.replace("*", ""))
