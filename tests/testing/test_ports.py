"""A reserved port is given to nobody by chance, and is there for the server that it was reserved for."""

from __future__ import annotations

import socket
import sys

import pytest

from distcheck.testing import reserve_port

on_linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="only Linux keeps a port that is bound twice"
)


@on_linux
@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", ""])
def test_a_server_takes_it_beside_the_holder(address: str) -> None:
    with reserve_port() as port, socket.create_server((address, port.number)):
        assert port.held
        with socket.create_connection(("127.0.0.1", port.number), timeout=5):
            pass


@on_linux
@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6 here")
def test_a_server_for_both_families_takes_it() -> None:
    with (
        reserve_port() as port,
        socket.create_server(("", port.number), family=socket.AF_INET6, dualstack_ipv6=True),
        socket.create_connection(("127.0.0.1", port.number), timeout=5),
    ):
        pass


@pytest.mark.torch
def test_torchs_store_takes_it() -> None:
    import torch.distributed as dist

    with reserve_port() as port:
        store = dist.TCPStore("127.0.0.1", port.number, is_master=True, wait_for_workers=False)
        store.set("key", "value")
        assert store.get("key") == b"value"


@on_linux
def test_who_asks_for_it_without_sharing_is_refused() -> None:
    with reserve_port() as port, socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port.number))


@on_linux
@pytest.mark.parametrize("reuse", [0, 1])
def test_the_kernel_gives_it_to_nobody_who_asks_for_any(reuse: int) -> None:
    with reserve_port() as port:
        taken: list[socket.socket] = []
        try:
            for _ in range(500):
                taken.append(socket.socket())
                taken[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
                taken[-1].bind(("127.0.0.1", 0))
                assert taken[-1].getsockname()[1] != port.number
        finally:
            for other in taken:
                other.close()


def test_what_is_released_can_be_had_by_anybody() -> None:
    port = reserve_port()
    assert port.release() == port.number
    assert not port.held
    port.release()
    with socket.socket() as other:
        other.bind(("127.0.0.1", port.number))


def test_elsewhere_it_is_let_go_of_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    port = reserve_port()
    assert not port.held
    with socket.socket() as other:
        other.bind(("127.0.0.1", port.number))


def test_without_ipv6_it_is_one_of_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    with reserve_port() as port, socket.create_server(("127.0.0.1", port.number)):
        pass
