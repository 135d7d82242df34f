"""What a stranger on the network can send to the membership check and to the test ports: no crash, bounded memory."""

from __future__ import annotations

import json
import random
import selectors
import socket
import sys
import time
from typing import Any

import pytest

from distcheck.checks.cluster import membership_check
from distcheck.checks.cluster.connectivity import _HELLO, _Guest
from distcheck.checks.cluster.membership_check import (
    _MOST_LINE_BYTES,
    HostCheckIn,
    MembershipProblem,
    _digest,
    _line,
    _listen_to,
    _Peer,
    _Rendezvous,
    _Server,
)
from distcheck.checks.cluster.sockets import ROLL_MARK

MESSAGES = 1000
#: Values that a field may have: each kind of JSON, too long, too large, nested, with control characters.
VALUES = (None, True, -1, 2**80, 1e308, "x" * 3000, "\x1b[2J", [], {}, [[[]]] * 5, "0-1048575," * 50, 0, 1, {"a": {}})
FIELDS = (
    "v", "key", "host", "node_rank", "nproc", "host_count", "payload", "instance", "ask", "version", "done", "refused",
    "roll", "callers", "surplus", "present", "of", "missing",
)  # fmt: skip
_LOADED: list[str] = []


def _hear_pickles(event: str, _arguments: Any) -> None:
    if event.startswith("pickle."):
        _LOADED.append(event)


def _message(chance: random.Random) -> bytes:
    kind = chance.random()
    if kind < 0.2:
        return chance.randbytes(chance.randrange(300))
    if kind < 0.3:
        return ROLL_MARK + b"[" * chance.randrange(16000) + b"\n"
    if kind < 0.4:
        return b"cposix\nsystem\n(S'true'\ntR."
    fields = {"distcheck": "roll", "v": 1, "key": _digest("")}
    fields.update((name, chance.choice(VALUES)) for name in chance.sample(FIELDS, chance.randrange(8)))
    line = bytearray(json.dumps(fields, separators=(",", ":")).encode())
    if kind < 0.5:
        line[chance.randrange(len(line))] = chance.randrange(256)
    return bytes(line) + b"\n"


def _server(host_count: int = 8) -> _Server:
    own = HostCheckIn("node1", 0, 1, host_count)
    return _Server(
        _Rendezvous(own, host_count, "127.0.0.1", 29500, time.monotonic(), 60.0, _digest(""), "ab" * 8, None)
    )


def _join(server: _Server) -> tuple[socket.socket, _Peer]:
    stranger, own = socket.socketpair()
    own.setblocking(False)
    peer = _Peer(own, "198.18.0.1", time.monotonic())
    server.peers[own.fileno()] = peer
    server.selector.register(own, selectors.EVENT_READ, peer)
    return stranger, peer


def test_no_message_breaks_a_reader_or_loads_a_pickle() -> None:
    sys.addaudithook(_hear_pickles)
    chance = random.Random(23)
    server = _server()
    strangers = []
    for number in range(MESSAGES):
        data = _message(chance)
        stranger, peer = _join(server)
        stranger.sendall(data)
        server._receive(peer)
        assert len(peer.received) <= _MOST_LINE_BYTES
        if number % 2:
            stranger.close()
        else:
            strangers.append(stranger)
        client, other = socket.socketpair()
        with client, other:
            other.sendall(data)
            other.shutdown(socket.SHUT_WR)
            _listen_to(server.rendezvous, client, lambda kind, detail="": MembershipProblem(kind, "a", 1, detail))
        client, other = socket.socketpair()
        with client, other:
            client.setblocking(False)
            guest = _Guest(client, "ab" * 8)
            other.sendall((_HELLO if number % 2 else b"") + data)
            # what is no greeting ends the connection
            assert guest.read() or len(guest.received) < 100
        if number % 100 == 0:
            server._beat(time.monotonic())
            assert server._answer().roll is not None
            server.close()
            for held in strangers:
                held.close()
            server, strangers = _server(), []
    server.close()
    assert _LOADED == []


@pytest.mark.parametrize("line", [_line(key=_digest(""), ask="who"), _line(key="another job"), _line(v=99)])
def test_one_line_gets_one_answer_however_much_follows(line: bytes) -> None:
    server = _server()
    stranger, peer = _join(server)
    stranger.sendall(line)
    server._receive(peer)
    size = len(peer.pending)
    answer = stranger.recv(1 << 16)
    assert answer.count(b"\n") == 1
    for _ in range(200):
        stranger.sendall(b"x" * 1000)
        server._receive(peer)
    assert (len(peer.received), len(peer.pending)) == (0, size)
    stranger.setblocking(False)
    with pytest.raises(BlockingIOError):
        stranger.recv(1)
    stranger.close()
    server.close()


def test_a_check_of_one_host_listens_on_loopback_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    real = membership_check.listen

    def listen(address: str, port: int, backlog: int) -> socket.socket:
        listener = real(address, 0, backlog)
        seen.append(listener.getsockname()[0])
        return listener

    monkeypatch.setattr(membership_check, "listen", listen)
    for host_count in (1, 2):
        server = _server(host_count)
        server.rendezvous = server.rendezvous._replace(address="192.0.2.1")
        server._listen()
        server.close()
    assert seen[0] == "127.0.0.1"
    assert seen[1] in ("::", "0.0.0.0")
