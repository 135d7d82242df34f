"""Doors on many ports, and the hosts that try each other's."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck.checks.cluster import connectivity
from distcheck.checks.cluster.connectivity import (
    BLOCK_BYTES,
    DOORS,
    LINUX_RANGE,
    MOST_COMPLETE,
    OTHER_RANGE,
    Doors,
    Listener,
    address_of,
    ephemeral_range,
    join_reach,
    open_doors,
    peers_of,
    try_hosts,
)
from distcheck.checks.cluster.records import (
    ConnectionAttempt,
    Device,
    HostInterface,
    HostRecord,
    Reach,
    from_json,
    to_json,
)
from distcheck.checks.host.ports import reserved_ports
from distcheck.core.world import World

LOW, HIGH = 33000, 60000


def listener(host: str, address: str = "127.0.0.1", low: int = LOW, high: int = HIGH) -> Listener:
    return Listener(host, address, low=low, high=high)


# healthy


def test_good_every_host_reaches_every_door() -> None:
    with listener("a") as a, listener("b") as b, listener("c") as c:
        cards = [a.card, b.card, c.card]
        parts = [
            try_hosts(own, [other for other in cards if other is not own], loopback=True, limit_s=20.0) for own in cards
        ]
    found = join_reach(parts)
    assert found.failed == ()
    assert (found.tried, found.hosts, found.doors, found.complete) == (3 * 2 * DOORS, 3, DOORS, True)
    assert LOW <= found.low_port < found.high_port <= HIGH


def test_good_ipv6() -> None:
    with listener("six", "::1") as six:
        if not six.card.ports:
            pytest.skip(f"no IPv6 here: {six.error}")
        found = try_hosts(Doors("own", "::1"), [six.card], loopback=True)
    assert (found.tried, found.failed) == (DOORS, ())


def test_good_doors_are_spread_over_the_range() -> None:
    with listener("a") as opened:
        ports = opened.card.ports
    width = (HIGH - LOW + 1) / DOORS
    assert [int((port - LOW) // width) for port in ports] == list(range(DOORS))
    assert ports[0] - LOW < width / 4
    assert HIGH - ports[-1] < width / 4


def test_good_a_narrow_range_is_kept_to() -> None:
    with listener("a", low=45001, high=45003) as opened:
        assert set(opened.card.ports) <= {45001, 45002, 45003}
        assert opened.card.ports


def test_good_reserved_ports_are_left_alone() -> None:
    reserved = {*range(33000, 45001), *range(59000, 60001)}
    with Listener("a", "127.0.0.1", low=LOW, high=HIGH, reserved=reserved) as opened:
        assert opened.card.ports
        assert all(45000 < port < 59000 for port in opened.card.ports)
    with Listener("a", "127.0.0.1", low=LOW, high=HIGH, reserved=range(LOW, HIGH + 1)) as opened:
        assert opened.card.ports == ()


def test_good_reserved_ports_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "proc/sys/net/ipv4"
    folder.mkdir(parents=True)
    world = World({}, root=str(tmp_path))
    assert reserved_ports(world) == frozenset()
    (folder / "ip_local_reserved_ports").write_text("8080,9148-9152,x-y,\n")
    assert reserved_ports(world) == {8080, *range(9148, 9153)}


def test_good_a_card_is_small_and_survives_the_wire() -> None:
    with listener("a") as opened:
        text = to_json(opened.card)
        assert from_json(Doors, text) == opened.card
    assert len(text) < 300


def test_good_an_interface_without_an_address_opens_nothing() -> None:
    with listener("a", "") as opened:
        assert opened.card == Doors("a", "", (), opened.card.token)
        assert opened.error == "no address was given"


def test_good_an_address_with_a_netmask() -> None:
    with listener("a", "127.0.0.1/255.0.0.0") as opened:
        assert opened.card.address == "127.0.0.1"


def test_good_loopback_of_another_host_is_not_tried() -> None:
    assert (
        try_hosts(Doors("a"), [Doors("b", "127.0.1.1", (40000,)), Doors("c"), Doors("d", "some-name", (1,))]).tried == 0
    )


def test_good_nothing_stays_behind() -> None:
    before = set(threading.enumerate())
    files = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    with listener("a") as opened:
        try_hosts(Doors("b"), [opened.card], loopback=True)
        port = opened.card.ports[0]
    assert set(threading.enumerate()) <= before
    if files:
        assert len(os.listdir("/proc/self/fd")) <= files
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 1)


def test_good_strangers_at_the_door_do_no_harm() -> None:
    with listener("a") as opened, contextlib.ExitStack() as stack:
        for said in (b"GET / HTTP/1.1\r\n\r\n", b"distcheck ", b"distcheck " + b"0" * 33, b""):
            guest = stack.enter_context(socket.create_connection(("127.0.0.1", opened.card.ports[0]), 2))
            guest.sendall(said)
        assert try_hosts(Doors("b"), [opened.card], loopback=True, limit_s=20.0).failed == ()


# not healthy


def outcomes(found: Reach) -> dict[str, int]:
    return dict(Counter(item.outcome for item in found.failed))


def test_bad_closed_doors_are_refused() -> None:
    with listener("b") as opened:
        card = opened.card
    found = try_hosts(Doors("a"), [card], loopback=True)
    assert outcomes(found) == {"refused": DOORS}
    assert found.failed[0] == ConnectionAttempt(
        "a", "b", "127.0.0.1", card.ports[0], "refused", os.strerror(errno.ECONNREFUSED)
    )


@pytest.mark.slow
def test_good_a_door_that_opens_a_moment_later() -> None:
    with listener("b") as opened:
        card = opened.card
    late: list[socket.socket] = []

    def open_again() -> None:
        for port in card.ports:
            late.append(socket.create_server(("127.0.0.1", port)))

    timer = threading.Timer(0.1, open_again)
    timer.start()
    found = try_hosts(Doors("a"), [card], loopback=True, limit_s=1.0)
    timer.join()
    for item in late:
        item.close()
    # refused at first and then open: nobody of ours is behind these, so that they are told as such
    assert outcomes(found) == {"failed": DOORS}


@contextlib.contextmanager
def simulator(answer: bytes | None, *, echo: bool = False) -> Iterator[int]:
    """Something that lets connections in and is no door of ours."""
    stop = threading.Event()
    held: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)

        def run() -> None:
            while not stop.is_set():
                try:
                    connection, _ = server.accept()
                except OSError:
                    continue
                held.append(connection)
                connection.settimeout(0.5)
                with contextlib.suppress(OSError):
                    said = connection.recv(4096)
                    if echo or answer is not None:
                        connection.sendall(said if echo else answer or b"")

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield int(server.getsockname()[1])
        finally:
            stop.set()
            thread.join()
            for connection in held:
                connection.close()


@pytest.mark.parametrize(
    ("answer", "echo", "error"),
    [
        (None, False, "connected, and no answer came"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", False, "another program answers there"),
        (None, True, "another program answers there"),
    ],
)
@pytest.mark.slow
def test_bad_another_program_is_no_open_door(answer: bytes | None, echo: bool, error: str) -> None:
    with simulator(answer, echo=echo) as port:
        found = try_hosts(Doors("a"), [Doors("b", "127.0.0.1", (port,), "0" * 32)], loopback=True, limit_s=1.0)
    (failed,) = found.failed
    assert (failed.outcome, failed.error) == ("failed", error)


def test_bad_a_door_of_another_host_with_the_same_address() -> None:
    """Two hosts with one address: the connection is made, and the token is not known there."""
    with listener("b") as opened:
        found = try_hosts(Doors("a"), [opened.card._replace(host="c", token="f" * 32)], loopback=True)
    assert outcomes(found) == {"failed": DOORS}


@pytest.mark.slow
def test_bad_small_packets_pass_and_a_block_does_not() -> None:
    token = "ab" * 16
    with simulator(connectivity._answer_to(token)) as port:
        found = try_hosts(Doors("a"), [Doors("b", "127.0.0.1", (port,), token)], loopback=True, limit_s=1.0)
    (failed,) = found.failed
    assert failed.outcome == "stalled"
    assert str(BLOCK_BYTES) in (failed.error or "")


def test_bad_an_address_that_this_host_has_no_way_to() -> None:
    # no host has an address of the block for examples, and the kernel has no way to a site-local one without a zone
    found = try_hosts(Doors("a"), [Doors("b", "fe80::1%no-such-interface", (40000,), "0" * 32)], limit_s=2.0)
    (failed,) = found.failed
    assert failed.outcome in ("no-route", "failed")


# many hosts


@given(st.integers(MOST_COMPLETE + 1, 20_000), st.data())
def test_good_of_many_hosts_each_tries_a_few_and_is_tried_by_as_many(count: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, count - 1))
    peers = peers_of(index, count)
    assert len(peers) == len(set(peers)) == (count - 1).bit_length()
    assert index not in peers
    # the others that try this one stand as many places before it
    triers = [(index - (1 << power)) % count for power in range((count - 1).bit_length())]
    assert all(index in peers_of(other, count) for other in triers)


@given(st.integers(1, MOST_COMPLETE))
def test_good_of_few_hosts_each_tries_all(count: int) -> None:
    assert all(sorted((*peers_of(index, count), index)) == list(range(count)) for index in range(count))


def test_good_of_many_hosts_few_doors_are_tried_and_others_by_each() -> None:
    with listener("a") as opened:
        parts = [
            try_hosts(Doors(f"h{number}", token=f"{number}"), [opened.card], hosts=1000, loopback=True, limit_s=20.0)
            for number in range(12)
        ]
    assert {part.tried for part in parts} == {connectivity.DOORS_OF_MANY}
    assert not any(part.complete for part in parts)
    assert len({(part.low_port, part.high_port) for part in parts}) > 1


# where doors are opened


def test_good_the_range_is_the_kernels(tmp_path: Path) -> None:
    folder = tmp_path / "proc/sys/net/ipv4"
    folder.mkdir(parents=True)
    (folder / "ip_local_port_range").write_text("40000\t40100\n")
    world = World({}, root=str(tmp_path))
    if world.platform == "linux":
        assert ephemeral_range(world) == (40000, 40100)
        (folder / "ip_local_port_range").write_text("nonsense")
        assert ephemeral_range(world) == LINUX_RANGE
    else:
        assert ephemeral_range(world) == OTHER_RANGE


ETH = HostInterface("eth0", ("10.0.0.1/255.255.255.0",), "ethernet", nccl=True)
WLAN = HostInterface("wlan0", ("192.168.1.2/24", "fe80::2%wlan0/64"), "ethernet", gloo=True)


def test_good_the_address_is_the_one_of_the_library() -> None:
    assert address_of(HostRecord("a", interfaces=(ETH, WLAN))) == "192.168.1.2"
    assert address_of(HostRecord("a", interfaces=(ETH, WLAN), gpus=(Device("GPU-1"),))) == "10.0.0.1"
    assert address_of(HostRecord("a", interfaces=(ETH._replace(nccl=False),))) == ""
    assert address_of(HostRecord("a")) == ""


def test_good_doors_of_a_record() -> None:
    own = HostInterface("lo", ("127.0.0.1/8",), "loopback", gloo=True)
    with open_doors(HostRecord("a", interfaces=(own,))) as opened:
        assert opened.card.host == "a"
        assert len(opened.card.ports) == DOORS
