"""The interfaces of a network namespace with a bridge, veths, a link that is down and awkward names: no mocks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from distcheck.checks.host.interfaces import Interface, Interfaces
from distcheck.checks.host.nccl_interfaces import choose_nccl_interfaces, gloo_interfaces

pytestmark = [
    pytest.mark.netns,
    pytest.mark.skipif(
        sys.platform != "linux" or os.geteuid() != 0 or shutil.which("ip") is None,
        reason="makes a network namespace: needs root and iproute2",
    ),
]

#: Reads the facts, and asks the kernel for the flag that NCCL asks it for (IFF_RUNNING, by SIOCGIFFLAGS).
READ = """
import fcntl, json, socket, struct
from distcheck.checks.host.interfaces import read_interfaces
from distcheck.core.model import to_plain
from distcheck.core.world import World
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
    flags = {
        name: struct.unpack("16xH", fcntl.ioctl(asker, 0x8913, struct.pack("16s16x", name.encode()))[:18])[0]
        for _, name in socket.if_nameindex()
    }
print(json.dumps({"facts": to_plain(read_interfaces(World({}))), "flags": flags}))
"""
LINKS = """
link set lo up
link add docker0 type bridge
addr add 172.17.0.1/16 dev docker0
link add eth0 type veth peer name peer0
addr add 10.77.0.5/24 dev eth0
link set eth0 mtu 1400
link set eth0 up
link set peer0 up
link add eth1 type veth peer name peer1
addr add 10.78.0.5/24 dev eth1
link add ib0 type veth peer name peer2
addr add 192.168.77.5/24 dev ib0
link set ib0 up
link set peer2 up
route add default via 10.77.0.1
"""


@pytest.fixture(scope="module")
def namespace() -> Iterator[str]:
    name = f"distcheck-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, timeout=30)
    if made.returncode:
        pytest.skip(f"no network namespace can be made here: {made.stderr.strip()}")
    try:
        for line in LINKS.strip().splitlines():
            done = subprocess.run(["ip", "-n", name, *line.split()], capture_output=True, text=True, timeout=30)
            if done.returncode:
                pytest.skip(f"this kernel refuses 'ip {line}': {done.stderr.strip()}")
        yield name
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True, timeout=30)


@pytest.fixture(scope="module")
def answer(namespace: str) -> dict[str, Any]:
    for _ in range(50):  # the kernel takes a moment to call a new link running
        answer = ask(namespace)
        if all(answer["flags"][name] & 0x40 for name in ("lo", "eth0", "ib0")):
            break
    return answer


def ask(namespace: str) -> dict[str, Any]:
    command = ["ip", "netns", "exec", namespace, sys.executable, "-c", READ]
    root = Path(__file__).parents[3]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, cwd=root)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def facts(answer: dict[str, Any]) -> Interfaces:
    plain = dict(answer["facts"])
    interfaces = tuple(Interface(**{**item, "addresses": tuple(item["addresses"])}) for item in plain.pop("interfaces"))
    return Interfaces(interfaces, **plain)


@pytest.fixture(scope="module")
def here(answer: dict[str, Any]) -> Interfaces:
    return facts(answer)


def test_running_is_what_the_kernel_calls_running(here: Interfaces, answer: dict[str, Any]) -> None:
    assert {item.name: item.running for item in here.interfaces} == {
        name: bool(flags & 0x40) for name, flags in answer["flags"].items()
    }
    assert {item.name: item.up for item in here.interfaces} == {
        name: bool(flags & 0x1) for name, flags in answer["flags"].items()
    }


def test_links_are_read(here: Interfaces) -> None:
    assert {"lo", "docker0", "eth0", "peer0", "eth1", "ib0"} <= {item.name for item in here.interfaces}
    eth0, eth1, docker0, lo = (here.named(name) for name in ("eth0", "eth1", "docker0", "lo"))
    assert eth0 is not None and eth1 is not None and docker0 is not None and lo is not None
    assert (eth0.up, eth0.running, eth0.kind, eth0.mtu_bytes) == (True, True, "veth", 1400)
    assert "10.77.0.5/255.255.255.0" in eth0.addresses
    assert (eth1.up, eth1.running) == (False, False)
    assert docker0.kind == "bridge"
    assert docker0.running is False
    assert (lo.running, lo.kind) == (True, "loopback")
    assert here.default_route == "eth0"


def test_nccl_takes_ib_first(here: Interfaces) -> None:
    choice = choose_nccl_interfaces(here, ifname=None)
    assert (choice.by, choice.names) == ("ib", ("ib0",))
    assert choice.first is not None
    assert choice.first.address == "192.168.77.5"


def test_nccl_by_name(here: Interfaces) -> None:
    assert choose_nccl_interfaces(here, ifname="eth").names == ("eth0",)
    assert choose_nccl_interfaces(here, ifname="=eth1").names == ()
    assert choose_nccl_interfaces(here, ifname="^ib,lo,docker,peer", family="AF_INET").names == ("eth0",)
    assert choose_nccl_interfaces(here, ifname="docker").names == ()


def test_gloo_takes_what_has_an_address(here: Interfaces) -> None:
    choice = gloo_interfaces(here, ifname="eth0,eth1,peer1")
    assert [item.name for item in choice.interfaces] == ["eth0", "eth1"]
    assert choice.missing == ("peer1",)


def test_a_bridge_that_is_up_can_be_taken(here: Interfaces, namespace: str) -> None:
    """Last in this file: it changes the namespace."""
    assert choose_nccl_interfaces(here, ifname="docker").names == ()
    for line in ("link set peer0 master docker0", "link set docker0 up"):
        subprocess.run(["ip", "-n", namespace, *line.split()], check=True, timeout=30)
    for _ in range(50):
        later = facts(ask(namespace))
        docker0 = later.named("docker0")
        if docker0 is not None and docker0.running:
            break
    assert choose_nccl_interfaces(later, ifname="docker").names == ("docker0",)
