"""Names and addresses: this host's own, the master's, and torchrun's idea of them."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck.checks.host import hostnames
from distcheck.checks.host.gpus import Gpu, Gpus
from distcheck.checks.host.hostnames import (
    HostName,
    MasterName,
    Name,
    is_loopback,
    is_own,
    literal,
    master_is_no_loopback,
    master_name_resolves,
    own_name_is_no_loopback,
    own_name_resolves,
    read_host_name,
    read_master_name,
    rendezvous_host_knows_itself,
    static_address_is_of_the_first_node,
)
from distcheck.checks.host.interfaces import Interface, Interfaces
from distcheck.checks.host.platform import Platform
from distcheck.core.model import Finding, Severity, Unavailable
from distcheck.core.world import World
from distcheck.launch.command import parse_command
from distcheck.launch.model import Launch
from distcheck.launch.reader import make_launch
from distcheck.launch.settings import Setting, Settings
from tests.recorded import RecordedWorld, recorded_world

NO_GPU = Unavailable("no driver")
GPUS = Gpus("nvidia", (Gpu(0, "GPU-0", "NVIDIA H100 80GB HBM3"),))
LINUX = Platform("linux")
NOTHING_SET = Settings()
LAN = Interfaces(
    (
        Interface("lo", ("127.0.0.1/255.0.0.0", "::1"), loopback=True),
        Interface("eth0", ("10.0.0.5/255.255.255.0", "fe80::5%eth0"), up=True),
        Interface("eth1", ("192.168.7.5/255.255.255.0",), up=True),
    ),
    default_route="eth0",
)
DEBIAN = HostName(Name("node1", ("127.0.1.1",)), "node1")
GOOD_HOST = HostName(Name("node1", ("10.0.0.5",)), "node1.cluster", Name("node1.cluster", ("10.0.0.5",)))
UNRESOLVED = Name("node1", error="Name or service not known")


def planned(line: str, **environ: str) -> Launch:
    return make_launch(environ, command=parse_command(line.split(), environ))


def own_name(
    launch: Launch,
    host: HostName,
    platform: Platform | Unavailable = LINUX,
    gpus: Gpus | Unavailable = NO_GPU,
    settings: Settings = NOTHING_SET,
) -> list[Finding]:
    return list(own_name_resolves(launch, host, platform, LAN, gpus, settings))


def loopback(
    launch: Launch,
    host: HostName,
    gpus: Gpus | Unavailable = NO_GPU,
    settings: Settings = NOTHING_SET,
    interfaces: Interfaces | Unavailable = LAN,
) -> list[Finding]:
    return list(own_name_is_no_loopback(launch, host, interfaces, gpus, settings))


TWO_STATIC = planned("torchrun --nnodes=2 --node-rank=1 --master-addr=node0 train.py")
TWO_C10D = planned("torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=node0:29400 train.py")
STANDALONE = planned("torchrun --standalone --nproc-per-node=2 train.py")
WORKER = make_launch(
    {
        "RANK": "3",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "4",
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_RANK": "1",
        "GROUP_WORLD_SIZE": "2",
        "MASTER_ADDR": "node0",
        "MASTER_PORT": "43210",
        "TORCHELASTIC_RUN_ID": "abc",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
)


# DC404: the master's name


@pytest.mark.parametrize(
    ("launch", "name", "platform", "words"),
    [
        pytest.param(TWO_STATIC, Name("node0", error="Name or service not known"), LINUX, "/etc/hosts", id="static"),
        pytest.param(
            TWO_STATIC,
            Name("node0", error="Temporary failure in name resolution"),
            LINUX,
            "resolv.conf",
            id="no server",
        ),
        pytest.param(
            TWO_STATIC,
            Name("job-master-0", error="Name or service not known"),
            Platform("linux", container="kubernetes"),
            "publishNotReadyAddresses",
            id="a pod's name in the first seconds",
        ),
        pytest.param(
            WORKER, Name("node0", error="Name or service not known"), LINUX, "--local-addr", id="worker of c10d"
        ),
        pytest.param(
            planned("python train.py", RANK="0", WORLD_SIZE="2", MASTER_ADDR="Mac.local", MASTER_PORT="29500"),
            Name("Mac.local", error="nodename nor servname provided, or not known"),
            Platform("darwin"),
            "127.0.0.1",
            id="Mac away from its network",
        ),
    ],
)
def test_bad_master_name(launch: Launch, name: Name, platform: Platform, words: str) -> None:
    (finding,) = master_name_resolves(launch, MasterName(name), platform)
    assert (finding.code, finding.severity) == ("DC404", Severity.ERROR)
    assert name.name in finding.message
    assert words in finding.fix.text


def test_bad_master_name_of_digits() -> None:
    (finding,) = master_name_resolves(TWO_STATIC, MasterName(Name("12", ("0.0.0.12",))), LINUX)
    assert finding.code == "DC404"
    assert "0.0.0.12" in finding.message


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(Name("node0", ("10.0.0.4",)), id="resolves"),
        pytest.param(Name("node0.cluster.", ("10.0.0.4",)), id="trailing dot"),
        pytest.param(Name("10.0.0.4", ("10.0.0.4",)), id="address"),
        pytest.param(Name("fe80::1%eth0", ("fe80::1%eth0",)), id="IPv6 address with a zone"),
        pytest.param(Name("0.0.0.0", ("0.0.0.0",)), id="this host, for one node"),
    ],
)
def test_good_master_name(name: Name) -> None:
    assert list(master_name_resolves(TWO_STATIC, MasterName(name), LINUX)) == []


# DC404: the own name


@pytest.mark.parametrize(
    ("launch", "host", "words"),
    [
        pytest.param(STANDALONE, HostName(UNRESOLVED, "node1"), "--local-addr=127.0.0.1", id="standalone hangs"),
        pytest.param(planned("torchrun train.py"), HostName(UNRESOLVED), "--local-addr=127.0.0.1", id="plain torchrun"),
        pytest.param(TWO_C10D, HostName(UNRESOLVED), "--local-addr=10.0.0.5", id="c10d hands out the name"),
        pytest.param(
            TWO_C10D,
            HostName(Name("node1", ("10.0.0.5",)), "node1.lan", Name("node1.lan", error="Name or service not known")),
            "node1.lan",
            id="only the full name is lost",
        ),
        pytest.param(TWO_STATIC, HostName(UNRESOLVED), "GLOO_SOCKET_IFNAME", id="gloo falls back to loopback"),
    ],
)
def test_bad_own_name(launch: Launch, host: HostName, words: str) -> None:
    (finding,) = own_name(launch, host)
    assert (finding.code, finding.severity) == ("DC404", Severity.ERROR)
    assert words in finding.fix.text


def test_bad_own_name_of_docker_desktop() -> None:
    host = HostName(
        Name("PC", ("192.168.1.2",)), "kubernetes.docker.internal", Name("kubernetes.docker.internal", ("::1",))
    )
    (finding,) = own_name(STANDALONE, host, Platform("win32"))
    assert finding.code == "DC404"
    assert "--local-addr=127.0.0.1" in finding.fix.text
    assert own_name(STANDALONE, host, LINUX) == []


def test_an_own_name_that_no_launch_needs_yet() -> None:
    (finding,) = own_name(Launch(), HostName(UNRESOLVED))
    assert (finding.code, finding.severity) == ("DC404", Severity.INFO)


@pytest.mark.parametrize(
    ("launch", "host", "gpus", "settings"),
    [
        pytest.param(STANDALONE, GOOD_HOST, NO_GPU, NOTHING_SET, id="resolves"),
        pytest.param(
            planned("torchrun --standalone --local-addr=127.0.0.1 train.py"),
            HostName(UNRESOLVED),
            NO_GPU,
            NOTHING_SET,
            id="another address is given out",
        ),
        pytest.param(
            planned("torchrun --master-port=29501 train.py"),
            HostName(UNRESOLVED),
            NO_GPU,
            NOTHING_SET,
            id="one node, static",
        ),
        pytest.param(TWO_STATIC, HostName(UNRESOLVED), GPUS, NOTHING_SET, id="NCCL does not ask for the name"),
        pytest.param(
            TWO_STATIC,
            HostName(UNRESOLVED),
            NO_GPU,
            Settings((Setting("GLOO_SOCKET_IFNAME", "eth0"),)),
            id="gloo is told its interface",
        ),
    ],
)
def test_good_own_name(launch: Launch, host: HostName, gpus: Gpus | Unavailable, settings: Settings) -> None:
    assert own_name(launch, host, LINUX, gpus, settings) == []


def test_a_name_server_that_does_not_answer_is_not_checked() -> None:
    hung = HostName(Name("node1", error=hostnames.NO_ANSWER))
    with pytest.raises(Unavailable, match="node1"):
        own_name(Launch(), hung)
    with pytest.raises(Unavailable, match="node1"):
        loopback(Launch(), hung)


# DC405


@pytest.mark.parametrize(
    ("launch", "host", "gpus", "severity", "words"),
    [
        pytest.param(TWO_STATIC, DEBIAN, NO_GPU, Severity.ERROR, "GLOO_SOCKET_IFNAME", id="Debian's 127.0.1.1, gloo"),
        pytest.param(
            TWO_STATIC._replace(backend="cpu:gloo,cuda:nccl"), DEBIAN, GPUS, Severity.ERROR, "eth0", id="gloo is said"
        ),
        pytest.param(TWO_STATIC, HostName(Name("node1", ("::1",))), NO_GPU, Severity.ERROR, "10.0.0.5", id="IPv6"),
        pytest.param(TWO_STATIC, DEBIAN, GPUS, Severity.INFO, "GLOO_SOCKET_IFNAME", id="NCCL does not ask for it"),
        pytest.param(Launch(), DEBIAN, NO_GPU, Severity.INFO, "GLOO_SOCKET_IFNAME", id="no launch"),
        pytest.param(
            STANDALONE,
            HostName(Name("12", ("0.0.0.12",)), "12"),
            NO_GPU,
            Severity.ERROR,
            "--local-addr=127.0.0.1",
            id="digits",
        ),
        pytest.param(
            Launch(), HostName(Name("12", ("0.0.0.12",))), NO_GPU, Severity.INFO, "--local-addr", id="digits, no launch"
        ),
        pytest.param(
            TWO_C10D,
            HostName(Name("vm", ("127.0.0.1",)), "localhost", Name("localhost", ("127.0.0.1",))),
            GPUS,
            Severity.ERROR,
            "--local-addr=10.0.0.5",
            id="MASTER_ADDR of all nodes would be localhost",
        ),
    ],
)
def test_bad_hostname_is_loopback(
    launch: Launch, host: HostName, gpus: Gpus | Unavailable, severity: Severity, words: str
) -> None:
    (finding,) = loopback(launch, host, gpus)
    assert (finding.code, finding.severity) == ("DC405", severity)
    assert words in finding.fix.text


@pytest.mark.parametrize(
    ("launch", "host", "settings"),
    [
        pytest.param(TWO_STATIC, GOOD_HOST, NOTHING_SET, id="the network's address"),
        pytest.param(STANDALONE, DEBIAN, NOTHING_SET, id="one node meets itself there"),
        pytest.param(STANDALONE, HostName(Name("vm", ("127.0.0.1",)), "localhost"), NOTHING_SET, id="plain container"),
        pytest.param(
            TWO_STATIC, HostName(Name("node1", ("10.0.0.5", "127.0.1.1"))), NOTHING_SET, id="the first address is taken"
        ),
        pytest.param(Launch(), HostName(UNRESOLVED), NOTHING_SET, id="no address at all is DC404"),
    ],
)
def test_good_dc405_hostname_is_loopback(launch: Launch, host: HostName, settings: Settings) -> None:
    assert loopback(launch, host, NO_GPU, settings) == []


def test_good_hostname_is_loopback_but_gloo_is_told_its_interface() -> None:
    assert loopback(TWO_STATIC, DEBIAN, NO_GPU, Settings((Setting("GLOO_SOCKET_IFNAME", "eth0"),))) == []


def test_the_interface_is_named_only_where_it_is_known() -> None:
    (finding,) = loopback(TWO_STATIC, DEBIAN)
    assert finding.fix.command == "export GLOO_SOCKET_IFNAME=eth0"
    for unknown in (Unavailable("no netifaces"), LAN._replace(default_route=None), LAN._replace(default_route="lo")):
        (finding,) = loopback(TWO_STATIC, DEBIAN, interfaces=unknown)
        assert finding.fix.command is None


# DC408: the static rendezvous

NODE_0 = "torchrun --nnodes=2 --node-rank=0 --master-addr={} train.py"
NODE_1 = "torchrun --nnodes=2 --node-rank=1 --master-addr={} train.py"


def static(line: str, address: str, platform: Platform = LINUX, **environ: str) -> list[Finding]:
    launch = planned(line.format("head"), **environ)
    master = MasterName(Name("head", (address,)), "--master-addr")
    return list(static_address_is_of_the_first_node(launch, master, LAN, platform))


@pytest.mark.parametrize(
    ("line", "address", "words"),
    [
        (NODE_0, "10.0.0.9", "this is node 0, and head (10.0.0.9) is none of its addresses"),
        (NODE_1, "10.0.0.5", "this is node 1, and head is its own address"),
        (NODE_1, "192.168.7.5", "this is node 1, and head is its own address"),
    ],
)
def test_bad_dc408_static(line: str, address: str, words: str) -> None:
    (finding,) = static(line, address)
    assert (finding.code, finding.severity) == ("DC408", Severity.WARNING)
    assert words in finding.message
    assert ("10.0.0.5" in finding.fix.text) == (line is NODE_0)


def test_bad_dc408_rank_0_without_an_agent() -> None:
    launch = make_launch(
        {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "head", "MASTER_PORT": "29500"}
    )
    master = MasterName(Name("head", ("10.0.0.9",)), "MASTER_ADDR")
    (finding,) = static_address_is_of_the_first_node(launch, master, LAN, LINUX)
    assert finding.severity is Severity.WARNING


@pytest.mark.parametrize(
    ("line", "address", "platform"),
    [
        pytest.param(NODE_0, "10.0.0.5", LINUX, id="node 0 and its own"),
        pytest.param(NODE_0, "192.168.7.5", LINUX, id="its other interface"),
        pytest.param(NODE_1, "10.0.0.9", LINUX, id="node 1 and that of node 0"),
        pytest.param(NODE_0, "127.0.0.1", LINUX, id="loopback is DC419"),
        pytest.param(NODE_0, "10.0.0.9", Platform("linux", container="docker"), id="a container"),
        pytest.param("torchrun --nnodes=2 --master-addr={} train.py", "10.0.0.9", LINUX, id="no number"),
        pytest.param(
            "torchrun --nnodes=1 --node-rank=0 --master-addr={} train.py", "10.0.0.9", LINUX, id="one node: DC403"
        ),
        pytest.param(
            "torchrun --nnodes=2 --node-rank=1 --rdzv-backend=c10d --rdzv-endpoint={} train.py", "10.0.0.5", LINUX,
            id="c10d decides itself",
        ),
    ],
)  # fmt: skip
def test_good_dc408_static(line: str, address: str, platform: Platform) -> None:
    assert static(line, address, platform) == []


# DC408


def endpoint(host: str, nodes: int = 2, extra: str = "") -> Launch:
    return planned(f"torchrun --nnodes={nodes} --rdzv-backend=c10d --rdzv-endpoint={host}:29400 {extra} train.py")


@pytest.mark.parametrize(
    ("launch", "host", "master", "words"),
    [
        pytest.param(
            endpoint("10.0.0.5"), DEBIAN, Name("10.0.0.5", ("10.0.0.5",)), "is_host=1", id="127.0.1.1 hosts file"
        ),
        pytest.param(
            endpoint("192.168.7.5"),
            GOOD_HOST,
            Name("192.168.7.5", ("192.168.7.5",)),
            "is_host=1",
            id="second interface",
        ),
        pytest.param(endpoint("head"), DEBIAN, Name("head", ("10.0.0.5",)), "is_host=1", id="an alias"),
        pytest.param(
            endpoint("10.0.0.5", nodes=1), DEBIAN, Name("10.0.0.5", ("10.0.0.5",)), "--standalone", id="one node, too"
        ),
        pytest.param(
            endpoint("node0", extra="--node-rank=1"),
            HostName(Name("node1", ("10.0.0.200",)), "node1"),
            Name("node0", ("10.0.0.200",)),
            "is_host=0",
            id="both names lead to one address that is not here",
        ),
    ],
)
def test_bad_rendezvous_host(launch: Launch, host: HostName, master: Name, words: str) -> None:
    (finding,) = rendezvous_host_knows_itself(launch, host, MasterName(master, "--rdzv-endpoint"), LAN)
    assert (finding.code, finding.severity) == ("DC408", Severity.ERROR)
    assert words in finding.fix.text


@pytest.mark.parametrize(
    ("launch", "host", "master"),
    [
        pytest.param(
            endpoint("10.0.0.5"), GOOD_HOST, Name("10.0.0.5", ("10.0.0.5",)), id="the name leads to the address"
        ),
        pytest.param(endpoint("node1"), DEBIAN, Name("node1", ("127.0.1.1",)), id="the own name itself"),
        pytest.param(endpoint("node1.cluster"), GOOD_HOST, Name("node1.cluster", ("10.0.0.5",)), id="the full name"),
        pytest.param(endpoint("node0"), GOOD_HOST, Name("node0", ("10.0.0.4",)), id="another host"),
        pytest.param(endpoint("node0"), DEBIAN, Name("node0", ("10.0.0.4",)), id="another host, seen from Debian"),
        pytest.param(
            endpoint("10.0.0.5", extra="--rdzv-conf=is_host=1"),
            DEBIAN,
            Name("10.0.0.5", ("10.0.0.5",)),
            id="it is said",
        ),
        pytest.param(STANDALONE, DEBIAN, Name("localhost", ("127.0.0.1",)), id="standalone"),
        pytest.param(TWO_STATIC, DEBIAN, Name("10.0.0.5", ("10.0.0.5",)), id="static asks for the node rank"),
        pytest.param(
            endpoint("node1"),
            HostName(Name("node1", ("203.0.113.9",)), "node1"),
            Name("node1", ("203.0.113.9",)),
            id="NAT",
        ),
        pytest.param(
            endpoint("10.0.0.5"), HostName(UNRESOLVED), Name("10.0.0.5", ("10.0.0.5",)), id="no name is DC404"
        ),
    ],
)
def test_good_rendezvous_host(launch: Launch, host: HostName, master: Name) -> None:
    found = list(rendezvous_host_knows_itself(launch, host, MasterName(master, "--rdzv-endpoint"), LAN))
    assert [finding.code for finding in found if finding.code == "DC408"] == []


# DC419


@pytest.mark.parametrize(
    ("launch", "master", "severity"),
    [
        pytest.param(
            planned("torchrun --nnodes=2 train.py"),
            Name("127.0.0.1", ("127.0.0.1",)),
            Severity.ERROR,
            id="nothing said",
        ),
        pytest.param(endpoint("localhost"), Name("localhost", ("127.0.0.1",)), Severity.ERROR, id="localhost"),
        pytest.param(endpoint("localhost."), Name("localhost.", ("::1",)), Severity.ERROR, id="with a dot"),
        pytest.param(
            endpoint("127.0.1.1"), Name("127.0.1.1", ("127.0.1.1",)), Severity.ERROR, id="all of 127 is loopback"
        ),
        pytest.param(
            TWO_STATIC, Name("node0", ("127.0.1.1",)), Severity.ERROR, id="another host's name in a copied file"
        ),
        pytest.param(
            planned("torchrun --nnodes=1:4 --rdzv-backend=c10d --rdzv-endpoint=localhost:29400 train.py"),
            Name("localhost", ("127.0.0.1",)),
            Severity.INFO,
            id="may be one node",
        ),
        pytest.param(WORKER, Name("localhost", ("127.0.0.1",)), Severity.ERROR, id="a host called localhost"),
    ],
)
def test_bad_master_is_loopback(launch: Launch, master: Name, severity: Severity) -> None:
    (finding,) = master_is_no_loopback(launch, GOOD_HOST, MasterName(master))
    assert (finding.code, finding.severity) == ("DC419", severity)


@pytest.mark.parametrize(
    ("launch", "master"),
    [
        pytest.param(TWO_STATIC, Name("node0", ("10.0.0.4",)), id="the network's address"),
        pytest.param(STANDALONE, Name("localhost", ("127.0.0.1",)), id="standalone"),
        pytest.param(
            planned("torchrun --master-port=29501 train.py"), Name("127.0.0.1", ("127.0.0.1",)), id="one node"
        ),
        pytest.param(
            planned("torchrun --nnodes=2 --node-rank=0 --master-addr=node1 train.py"),
            Name("node1", ("127.0.1.1",)),
            id="the master's own name on Debian",
        ),
        pytest.param(WORKER._replace(node_rank=0), Name("localhost", ("127.0.0.1",)), id="rank 0's host itself"),
        pytest.param(
            WORKER._replace(variables={**WORKER.variables, "TORCHELASTIC_RUN_ID": "none"}),
            Name("127.0.0.1", ("127.0.0.1",)),
            id="two nodes simulated on one machine have met",
        ),
    ],
)
def test_good_master_is_loopback(launch: Launch, master: Name) -> None:
    found = list(master_is_no_loopback(launch, GOOD_HOST, MasterName(master)))
    assert [finding.code for finding in found if finding.code == "DC419"] == []


# readers


def test_the_own_name_is_read(tmp_path: Path) -> None:
    record = {
        "host_name": "node1",
        "full_host_name": "node1.lan",
        "names": {"node1": ["127.0.1.1"], "node1.lan": ["10.0.0.5"]},
    }
    world = recorded_world(tmp_path, **record)
    found = read_host_name(world, TWO_C10D)
    assert found.name.addresses == ("127.0.1.1",)
    assert found.full_name == "node1.lan"
    assert found.full is not None
    assert found.full.addresses == ("10.0.0.5",)
    assert read_host_name(world, Launch()).full_name == ""


def test_an_own_name_that_does_not_resolve(tmp_path: Path) -> None:
    found = read_host_name(recorded_world(tmp_path, host_name="node1"), STANDALONE)
    assert found.name.error == "Name or service not known"
    assert found.full == found.name


class HungWorld(RecordedWorld):
    """A host whose name server never answers."""

    def full_host_name(self) -> str:
        threading.Event().wait()
        raise AssertionError

    def resolve(self, name: str) -> tuple[str, ...]:
        if name == "node1" and self.record.get("hosts_file"):
            return ("10.0.0.5",)
        threading.Event().wait()
        raise AssertionError


def test_a_hung_name_server_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostnames, "FULL_NAME_LIMIT_S", 0.05)
    monkeypatch.setattr(hostnames, "SHELL_LIMIT_S", 0.05)
    found = read_host_name(HungWorld(tmp_path, {"hosts_file": True}), TWO_C10D)
    assert found == HostName(found.name)
    assert found.name.addresses == ("10.0.0.5",)
    assert read_host_name(HungWorld(tmp_path, {}), Launch()).name.error == hostnames.NO_ANSWER


@pytest.mark.parametrize(
    ("launch", "name", "origin"),
    [
        (TWO_STATIC, "node0", "--master-addr"),
        (TWO_C10D, "node0", "--rdzv-endpoint"),
        (endpoint("[2001:db8::1]"), "2001:db8::1", "--rdzv-endpoint"),
        (endpoint("fe80::1%eth0"), "fe80::1%eth0", "--rdzv-endpoint"),
        (STANDALONE, "localhost", "--standalone"),
        (WORKER, "node0", "MASTER_ADDR"),
        (
            planned("torchrun --nnodes=2 --rdzv-backend=etcd-v2 --rdzv-endpoint=etcd:2379 t.py"),
            "etcd",
            "--rdzv-endpoint",
        ),
        (planned("python t.py", RANK="0", MASTER_ADDR="node0", MASTER_PORT="1234"), "node0", "MASTER_ADDR"),
        (planned("deepspeed --master_addr=node0 --num_nodes=2 t.py"), "node0", "--master_addr"),
    ],
)
def test_the_master_is_read(tmp_path: Path, launch: Launch, name: str, origin: str) -> None:
    world = recorded_world(tmp_path, names={"node0": ["10.0.0.4"], "localhost": ["127.0.0.1"], "etcd": ["10.0.0.9"]})
    found = read_master_name(world, launch)
    assert (found.name.name, found.origin) == (name, origin)
    assert found.name.error is None
    assert found.name.addresses


@pytest.mark.parametrize(
    ("launch", "why"),
    [
        (Launch(), "no launch"),
        (planned("python train.py"), "neither MASTER_ADDR"),
        (planned("python train.py", RANK="0", MASTER_ADDR="http://node0", MASTER_PORT="1"), "no host name"),
        (planned("python train.py", RANK="0", MASTER_ADDR="[::1]", MASTER_PORT="1"), "no host name"),
        (planned("python train.py", RANK="0", MASTER_ADDR=" node0", MASTER_PORT="1"), "no host name"),
    ],
)
def test_no_master_is_not_checked(tmp_path: Path, launch: Launch, why: str) -> None:
    with pytest.raises(Unavailable, match=why):
        read_master_name(recorded_world(tmp_path), launch)


@pytest.mark.parametrize("name", ["name.invalid", "name..invalid", "x" * 80])
def test_a_name_that_really_does_not_resolve(name: str) -> None:
    launch = planned("python t.py", RANK="0", WORLD_SIZE="2", MASTER_ADDR=name, MASTER_PORT="1234")
    master = read_master_name(World({}), launch)
    assert master.name.error
    (finding,) = master_name_resolves(launch, master, LINUX)
    assert finding.code == "DC404"


def test_this_host_has_a_name() -> None:
    found = read_host_name(World({}), STANDALONE)
    assert found.name.name == socket.gethostname()
    assert found.name.addresses or found.name.error


# addresses


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("10.0.0.5", "10.0.0.5"),
        ("2001:0DB8::0001", "2001:db8::1"),
        ("fe80::1%eth0", "fe80::1"),
        ("12", None),
        ("10.1", None),
        ("node1", None),
        ("", None),
        ("10.0.0.5%eth0", None),
        ("a\0b", None),
    ],
)
def test_literal(text: str, short: str | None) -> None:
    assert literal(text) == short


@given(st.ip_addresses())
def test_every_address_is_a_literal(address: object) -> None:
    assert literal(str(address)) is not None
    assert literal(literal(str(address)) or "") == literal(str(address))


@given(st.text())
def test_literal_takes_any_text(text: str) -> None:
    short = literal(text)
    assert short is None or literal(short) == short


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "127.0.1.1", "127.255.255.254", "::1", "::", "0.0.0.0", "::ffff:127.0.0.1"]
)
def test_loopback(address: str) -> None:
    assert is_loopback(address)


@pytest.mark.parametrize("address", ["10.0.0.5", "128.0.0.1", "::2", "fe80::1", "localhost", "0.0.0.12", ""])
def test_no_loopback(address: str) -> None:
    assert not is_loopback(address)


def test_own_addresses() -> None:
    assert is_own(("192.168.7.5",), LAN)
    assert is_own(("fe80::0005%eth0",), LAN)
    assert is_own(("127.0.0.9",), LAN)
    assert not is_own(("10.0.0.4", "fe80::4"), LAN)
