"""The addresses from the kernel itself: the same as netifaces gives, here and in a namespace with odd ones."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from distcheck.checks.host.interfaces import read_interfaces
from distcheck.core import netlink
from distcheck.core.model import Unavailable
from distcheck.core.netlink import read_addresses
from distcheck.core.world import Address, World

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel of Linux")

#: A label, a second address, the other end of a link that is an address as well, IPv6 alone, the address of a link.
LINKS = """
link set lo up
link add eth0 type veth peer name peer0
addr add 10.77.0.5/24 dev eth0
addr add 10.77.0.6/24 dev eth0 label eth0:1
addr add 10.77.9.1 peer 10.77.9.2 dev eth0
addr add 10.77.1.6/31 dev peer0
-6 addr add fd00:77::5/64 dev eth0
link set eth0 up
link set peer0 up
link add only6 type veth peer name none
link set only6 up
link set none up
-6 addr add fd01::1/127 dev only6
-6 addr add fe80::77/64 dev only6
"""
BOTH = """
import json
from distcheck.core.netlink import read_addresses
from distcheck.core.world import World
print(json.dumps([World({}).addresses(), read_addresses()]))
"""


@pytest.fixture
def without_netifaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "netifaces", None)


def test_the_addresses_of_this_host_are_those_of_netifaces() -> None:
    known = World({}).addresses()
    assert "127.0.0.1" in [address.address for address in known]
    assert tuple(Address(*found) for found in read_addresses()) == known


@pytest.mark.netns
def test_odd_addresses_are_those_of_netifaces() -> None:
    if os.geteuid() or not shutil.which("ip"):
        pytest.skip("makes a network namespace: needs root and iproute2")
    name = f"distcheck-netlink-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", name], check=True, timeout=30)
    try:
        for line in LINKS.strip().splitlines():
            done = subprocess.run(["ip", "-n", name, *line.split()], capture_output=True, text=True, timeout=30)
            if done.returncode:
                pytest.skip(f"this kernel refuses 'ip {line}': {done.stderr.strip()}")
        answer = subprocess.run(
            ["ip", "netns", "exec", name, sys.executable, "-c", BOTH],
            capture_output=True, text=True, check=True, timeout=60, cwd=Path(__file__).parents[2],
        )  # fmt: skip
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True, timeout=30)
    theirs, ours = json.loads(answer.stdout)
    assert ours == theirs
    found = {(interface, address) for interface, _, address, _ in ours}
    # of two ends the own one, a label as its own name, the zone of an address that means nothing without its link
    assert {("eth0:1", "10.77.0.6"), ("eth0", "10.77.9.1"), ("only6", "fd01::1"), ("only6", "fe80::77%only6")} <= found


@pytest.mark.usefixtures("without_netifaces")
def test_the_world_asks_the_kernel_where_netifaces_does_not_import() -> None:
    assert World({}).addresses() == tuple(Address(*found) for found in read_addresses())


def test_all_interfaces_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    known = read_interfaces(World({}))
    monkeypatch.setitem(sys.modules, "netifaces", None)
    monkeypatch.setitem(sys.modules, "psutil", None)
    assert read_interfaces(World({})) == known


@pytest.mark.usefixtures("without_netifaces")
def test_no_other_system_is_asked() -> None:
    world = World({})
    world.platform = "darwin"
    with pytest.raises(Unavailable, match=r"netifaces module does not import .* on darwin .* pip install"):
        world.addresses()


@pytest.mark.usefixtures("without_netifaces")
def test_a_kernel_that_refuses_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*words: Any) -> Any:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("socket.socket", refuse)
    with pytest.raises(Unavailable, match="the kernel reports no addresses: Operation not permitted"):
        World({}).addresses()


class Kernel:
    """A socket that answers with what was put in."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = list(pieces)

    def recv(self, size: int) -> bytes:
        return self.pieces.pop(0)


@pytest.mark.parametrize(
    ("piece", "said"),
    [
        (bytes.fromhex("24000000 0200 0000 01000000 00000000 ffffffff 00000000000000000000000000000000"), "no addr"),
        (bytes.fromhex("04000000 1400 0000 01000000 00000000"), "no sense"),
        (bytes.fromhex("00000000 1800 0000 01000000 00000000"), "no sense"),
    ],
)
def test_bad_answers_end(piece: bytes, said: str) -> None:
    kernel: Any = Kernel(piece)
    with pytest.raises(OSError, match=said):
        list(netlink._messages(kernel))


def test_a_family_of_no_use_and_an_interface_that_went_are_left_out() -> None:
    ipv4 = bytes.fromhex("02180000 01000000 0800 0200 0a000005 0900 0300 6c6f000000000000")
    assert netlink._address(ipv4, {1: "lo"}) == ("lo", "ipv4", "10.0.0.5", "255.255.255.0")
    assert netlink._address(ipv4, {2: "eth0"}) is None
    assert netlink._address(bytes.fromhex("2d180000 01000000") + ipv4[8:], {1: "lo"}) is None
    assert netlink._address(ipv4[:8] + bytes.fromhex("0300 0200"), {1: "lo"}) is None
