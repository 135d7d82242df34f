"""What a stranger on the network can send to the membership check and to the test ports: no crash, bounded memory."""

from __future__ import annotations

import json
import random
import selectors
import socket
import sys
import time
from pathlib import Path
from typing import Any

import click
import pytest

from distcheck.checks.cluster import membership_protocol, membership_server
from distcheck.checks.cluster.connectivity import _HELLO, _Guest
from distcheck.checks.cluster.membership_check import _listen_to
from distcheck.checks.cluster.membership_protocol import (
    CALL,
    MOST_LINE_BYTES,
    HostCheckIn,
    MembershipAnswer,
    MembershipProblem,
    Rendezvous,
    _read_ranges,
    digest,
    make_line,
    with_tag,
)
from distcheck.checks.cluster.membership_server import MembershipServer, _Peer
from distcheck.checks.cluster.sockets import ROLL_MARK
from distcheck.cli.collective import token_of
from distcheck.core.model import Report
from distcheck.runtime.smoke_test import multi_host
from distcheck.runtime.smoke_test.multi_host import troubled

MESSAGES = 1000
#: Values that a field may have: each kind of JSON, too long, too large, nested, with control characters.
VALUES = (None, True, -1, 2**80, 1e308, "x" * 3000, "\x1b[2J", [], {}, [[[]]] * 5, "0-1048575," * 50, 0, 1, {"a": {}})
FIELDS = (
    "v", "host", "node_rank", "nproc", "host_count", "payload", "instance", "ask", "version", "done", "refused",
    "roll", "callers", "surplus", "present", "of", "missing",
)  # fmt: skip
INSTANCE = "ab" * 8
_LOADED: list[str] = []


def _call(key: str = "", **fields: Any) -> bytes:
    """The line of a caller that knows a key."""
    return with_tag(make_line(**fields), digest(key), CALL)


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
    fields: dict[str, Any] = {"distcheck": "roll", "v": membership_protocol.PROTOCOL}
    fields.update((name, chance.choice(VALUES)) for name in chance.sample(FIELDS, chance.randrange(8)))
    # what a reader does with fields shows only behind a tag that it accepts: that of a caller, or of the server
    to = chance.choice((CALL, INSTANCE))
    line = bytearray(with_tag(json.dumps(fields, separators=(",", ":")).encode(), digest(""), to))
    if kind < 0.5:
        line[chance.randrange(len(line))] = chance.randrange(256)
    return bytes(line)


def _server(host_count: int = 8) -> MembershipServer:
    own = HostCheckIn("node1", 0, 1, host_count)
    return MembershipServer(
        Rendezvous(own, host_count, "127.0.0.1", 29500, time.monotonic(), 60.0, digest(""), INSTANCE, None)
    )


def _join(server: MembershipServer) -> tuple[socket.socket, _Peer]:
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
        assert len(peer.received) <= MOST_LINE_BYTES
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


@pytest.mark.parametrize("line", [_call(ask="who"), _call("another job"), make_line(v=99)])
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


@pytest.mark.parametrize(
    "asked",
    [
        make_line(), make_line(ask="who"), _call("guess", ask="who"), _call("guess"), make_line(v=99), make_line(tag="0" * 64),
        with_tag(make_line(ask="who"), digest(""), INSTANCE),
    ],
)  # fmt: skip
def test_a_stranger_does_not_learn_the_key(asked: bytes) -> None:
    """The answer to "who" held it, and so did a refusal: with it, a stranger joined as a host."""
    server = _server()
    stranger, peer = _join(server)
    stranger.sendall(asked)
    server._receive(peer)
    answer = stranger.recv(1 << 16)
    assert b"refused" in answer
    assert server.rendezvous.key.hex().encode() not in answer and server.rendezvous.instance.encode() not in answer
    assert server.present == 1
    stranger.close()
    server.close()


def test_who_has_the_key_gets_an_answer() -> None:
    server = _server()
    for more in ({"ask": "who"}, {"host": "node2", "node_rank": 1, "instance": "x"}):
        stranger, peer = _join(server)
        stranger.sendall(_call(**more))
        server._receive(peer)
        answer = stranger.recv(1 << 16)
        assert b"refused" not in answer and server.rendezvous.key.hex().encode() not in answer
    assert server.present == 2
    server.close()


def test_connections_that_send_nothing_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership_server, "_MOST_IDLE", 20)
    server = _server(2)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        callers = []
        for number in range(100):
            callers.append(socket.create_connection(listener.getsockname()))
            server._accept(listener)
            if number == 0:
                callers[0].sendall(_call(host="node2", node_rank=1, instance="x"))
                server._receive(next(iter(server.peers.values())))
        assert len(server.peers) == 21
        assert server.present == 2
        for caller in callers:
            caller.close()
    server.close()


@pytest.mark.parametrize(
    "payload",
    ['{"errors": 5}', '{"errors": {"a": 1}}', '{"errors": true}', "[]", "[" * 8000, '{"errors":' + "[" * 8000],
)
def test_the_findings_that_a_host_sends_are_checked(payload: str) -> None:
    answer = MembershipAnswer(
        None, (HostCheckIn("x", payload=payload), HostCheckIn("y", payload='{"errors": ["DC1"]}'))
    )
    assert troubled(answer) == (("y", ("DC1",)),)


@pytest.mark.parametrize("text", ["0-1048575," * 20_000, "9" * 5000, "0-" + "9" * 5000])
def test_the_missing_hosts_that_a_server_names_fill_no_memory(text: str) -> None:
    assert len(_read_ranges(text, 1 << 20)) <= 2 << 20
    assert _read_ranges("0-2,5", 8) == (0, 1, 2, 5)


def test_hosts_with_another_token_do_not_join(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = []
    monkeypatch.setattr(multi_host, "call_roll", lambda **given: keys.append(given["key"]))
    plan = multi_host.HostPlan(2, 1, 0, "127.0.0.1", 29500, 29501, "static")
    (file := tmp_path / "token").write_text(" s3cret\n")
    tokens = [token_of(None, {}), token_of(str(file), {}), token_of(None, {"DISTCHECK_TOKEN": "s3cret"})]
    for token in (*tokens, "other"):
        multi_host.call(plan, name="x", inspected=Report("env"), timeout_s=1.0, token=token)
    assert keys[1] == keys[2]
    assert len({digest(key) for key in keys}) == 3
    file.write_text("\n")
    with pytest.raises(click.UsageError, match="empty"):
        token_of(str(file), {})
    with pytest.raises(click.UsageError, match="can't be read"):
        token_of(str(tmp_path / "none"), {})


def test_a_check_of_one_host_listens_on_loopback_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    real = membership_server.listen

    def listen(address: str, port: int, backlog: int) -> socket.socket:
        listener = real(address, 0, backlog)
        seen.append(listener.getsockname()[0])
        return listener

    monkeypatch.setattr(membership_server, "listen", listen)
    for host_count in (1, 2):
        server = _server(host_count)
        server.rendezvous = server.rendezvous._replace(address="192.0.2.1")
        server._listen()
        server.close()
    assert seen[0] == "127.0.0.1"
    assert seen[1] in ("::", "0.0.0.0")
