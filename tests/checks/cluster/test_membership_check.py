"""The roll of hosts over plain TCP: who is there, who is missing, and what else may answer at the address."""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distcheck.checks.cluster import membership_check, membership_protocol, membership_server
from distcheck.checks.cluster.membership_check import call_roll
from distcheck.checks.cluster.membership_protocol import (
    MOST_PAYLOAD_BYTES,
    HostCheckIn,
    MembershipAnswer,
    MembershipError,
    MembershipProblem,
)
from distcheck.checks.cluster.membership_server import recognise
from distcheck.checks.cluster.records import Roll
from distcheck.checks.cluster.sockets import ROLL_MARK, describe_bytes, is_own_address, listen, resolve
from distcheck.core.model import rank_ranges

#: Nothing of all this may hang: a call ends one second after its limit, and this is far beyond.
LATE_S = 10.0


@pytest.fixture(autouse=True)
def settle_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """All hosts of a test start together, so that nobody has to be waited for."""
    monkeypatch.setattr(membership_server, "_SETTLE_S", 0.4)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def call(port: int, rank: int | None, count: int = 2, **options: Any) -> MembershipAnswer:
    given: dict[str, Any] = {
        "address": "127.0.0.1",
        "timeout_s": 3.0,
        "name": f"node{rank}",
        "nproc": 4,
        "key": "job 1",
    }
    return call_roll(host_count=count, node_rank=rank, port=port, **{**given, **options})


def together(*calls: Callable[[], MembershipAnswer]) -> list[Any]:
    """The answers, or what was raised, of hosts that call at the same time."""
    found: list[Any] = [None] * len(calls)

    def one(number: int) -> None:
        try:
            found[number] = calls[number]()
        except (OSError, ValueError) as error:
            found[number] = error

    threads = [threading.Thread(target=one, args=(number,), daemon=True) for number in range(len(calls))]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(3 * LATE_S)
        assert not thread.is_alive(), "a call of the roll hangs"
    assert time.monotonic() - start < 3 * LATE_S
    return found


@contextlib.contextmanager
def server(
    answer: bytes | Callable[[bytes], bytes] | None, *, speaks_first: bool = False, closes: bool = False
) -> Iterator[int]:
    """Some other program on a port: what it says, or makes of what it hears, and whether before it is spoken to."""
    stop = threading.Event()
    held: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.1)

        def run() -> None:
            while not stop.is_set():
                try:
                    connection, _ = listener.accept()
                except OSError:
                    continue
                held.append(connection)
                connection.settimeout(0.5)
                with contextlib.suppress(OSError):
                    heard = b"" if answer is None or speaks_first else connection.recv(4096)
                    if answer is not None:
                        connection.sendall(answer(heard) if callable(answer) else answer)
                    if closes or (answer is not None and not speaks_first):
                        connection.close()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield int(listener.getsockname()[1])
        finally:
            stop.set()
            thread.join()
            for connection in held:
                connection.close()


# all are there


def test_good_all_hosts_learn_the_same() -> None:
    port = free_port()
    answers = together(*(lambda rank=rank: call(port, rank, 3, payload=f"DC{rank}") for rank in range(3)))
    for rank, answer in enumerate(answers):
        assert answer.complete, answer
        assert (answer.roll.present, answer.roll.missing, answer.roll.of) == (3, (), "hosts")
        assert [(item.host, item.node_rank, item.payload) for item in answer.callers] == [
            ("node0", 0, "DC0"),
            ("node1", 1, "DC1"),
            ("node2", 2, "DC2"),
        ]
        assert (answer.ranks, answer.all_callers, answer.served) == (12, True, rank == 0)
        assert not answer.problems


def test_good_one_host_alone_needs_nobody() -> None:
    answer = call(free_port(), 0, 1)
    assert answer.complete
    assert answer.roll is not None
    assert answer.roll.present == 1


def test_good_without_node_ranks_the_owner_of_the_address_serves() -> None:
    port = free_port()
    answers = together(lambda: call(port, None), lambda: call(port, None))
    assert all(answer.complete and answer.anonymous for answer in answers), answers
    assert sum(answer.served for answer in answers) == 1


@pytest.mark.slow
def test_good_the_server_may_start_later() -> None:
    port = free_port()

    def late() -> MembershipAnswer:
        time.sleep(0.7)
        return call(port, 0, timeout_s=5.0)

    first, second = together(lambda: call(port, 1, timeout_s=5.0), late)
    assert first.complete
    assert second.complete


def test_good_ipv6_alone() -> None:
    try:
        port = _free_port_ipv6()
    except OSError:
        pytest.skip("no IPv6 here")
    answers = together(lambda: call(port, 0, address="::1"), lambda: call(port, 1, address="[::1]"))
    assert all(answer.complete for answer in answers), answers


def _free_port_ipv6() -> int:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as found:
        return int(found.getsockname()[1])


def test_good_a_name_with_a_dead_address_first(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (membership_check, membership_server):
        monkeypatch.setattr(module, "resolve", lambda name, port: ("127.0.0.9", "127.0.0.1"))
    port = free_port()
    answers = together(lambda: call(port, 0, address="node0"), lambda: call(port, 1, address="node0"))
    assert all(answer.complete for answer in answers), answers


def test_good_junk_and_half_open_connections_do_no_harm() -> None:
    port = free_port()
    held: list[socket.socket] = []

    def stranger() -> MembershipAnswer:
        deadline = time.monotonic() + LATE_S
        junk = [
            b"GET / HTTP/1.1\r\n\r\n",
            b"\x00" * 50,
            b'{"distcheck":"roll"' + b"x" * 40_000,
            b"[]\n",
            ROLL_MARK + b"\n",
            b"",
        ]
        for said in junk:
            while True:
                try:
                    held.append(socket.create_connection(("127.0.0.1", port), 1))
                    break
                except OSError:
                    assert time.monotonic() < deadline
            with contextlib.suppress(OSError):
                held[-1].sendall(said)
        return call(port, 1, timeout_s=5.0)

    answers = together(lambda: call(port, 0, timeout_s=5.0), stranger)
    assert all(answer.complete for answer in answers), answers
    for connection in held:
        connection.close()


def test_good_the_same_host_over_a_new_connection_is_no_second_one() -> None:
    port = free_port()

    def twice() -> MembershipAnswer:
        hello = _hello(port, 1, 3, instance="the same")
        with _connected(port) as first, _connected(port) as second:
            first.sendall(hello)
            assert b'"present"' in first.recv(4096)
            second.sendall(hello)
            assert b'"present"' in second.recv(4096)
            assert first.recv(4096) == b""
            return call(port, 2, 3)

    first, second = together(lambda: call(port, 0, 3), twice)
    assert first.complete, first
    assert second.complete


def test_good_hundreds_of_callers_from_one_thread() -> None:
    """The server serves them without a thread for each, and each has the answer."""
    count, port = 400, free_port()
    done: list[dict[str, Any]] = []

    def crowd() -> MembershipAnswer:
        selector = selectors.DefaultSelector()
        received: dict[socket.socket, bytearray] = {}
        for rank in range(1, count):
            connection = _connected(port)
            payload = "DC401" if rank == 399 else ""
            connection.sendall(_hello(port, rank, count, instance=f"caller {rank}", payload=payload))
            connection.setblocking(False)
            received[connection] = bytearray()
            selector.register(connection, selectors.EVENT_READ)
        deadline = time.monotonic() + 2 * LATE_S
        while len(done) < count - 1 and time.monotonic() < deadline:
            for item, _ in selector.select(0.2):
                connection = item.fileobj  # type: ignore[assignment]
                part = connection.recv(1 << 16)
                received[connection] += part
                if not part:
                    selector.unregister(connection)
                for line in bytes(received[connection]).split(b"\n")[:-1]:
                    said = json.loads(line)
                    if said.get("done"):
                        done.append(said)
                        selector.unregister(connection)
                        break
        for connection in received:
            connection.close()
        return MembershipAnswer(None)

    answer, _ = together(lambda: call(port, 0, count, timeout_s=20.0), crowd)
    assert answer.complete
    assert len(answer.callers) == count
    assert len(done) == count - 1
    assert {said["callers"][0]["payload"] for said in done} == {"DC401"}, "who hands something over comes first"


def test_good_of_very_many_callers_a_host_learns_of_some() -> None:
    meeting = membership_protocol.Rendezvous(HostCheckIn("node0"), 9000, "node0", 1, 0.0, 1.0, b"", "", None)
    callers = tuple(HostCheckIn(f"node{rank}", rank, 8, 9000, "DC320" if rank == 8000 else "") for rank in range(9000))
    answer = MembershipAnswer(Roll(9000, 9000, of="hosts"), callers, ranks=72000)
    line = membership_protocol.write_answer(meeting, answer, 8192)
    assert len(line) < 8192
    said = json.loads(line)
    assert said["all_callers"] is False
    assert said["callers"][0]["host"] == "node8000"


def test_good_progress_is_told() -> None:
    port = free_port()
    told: list[tuple[int, int, str]] = []

    def late() -> MembershipAnswer:
        time.sleep(0.6)
        return call(port, 1)

    together(lambda: call(port, 0, progress=lambda *said: told.append(said)), late)
    assert told[0] == (1, 2, "1")


# somebody is missing, or came twice


@pytest.mark.slow
def test_bad_a_missing_host_is_named_within_the_limit() -> None:
    port = free_port()
    answers = together(
        lambda: call(port, 0, 3, timeout_s=1.0),
        lambda: call(port, 1, 3, timeout_s=1.5),
    )
    for answer in answers:
        assert not answer.complete
        assert answer.roll.missing == (2,)
        assert answer.roll.present == 2
        assert answer.roll.waited_s < LATE_S


def test_bad_a_name_server_that_hangs_takes_no_more_than_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership_check, "resolve", lambda *_: time.sleep(30))
    start = time.monotonic()
    answer = call(free_port(), 1, address="node0", timeout_s=0.5)
    assert time.monotonic() - start < 2
    assert [problem.kind for problem in answer.problems] == ["unresolvable"]


@pytest.mark.slow
def test_bad_who_waits_less_than_the_server_knows_who_is_missing() -> None:
    port = free_port()
    first, second = together(lambda: call(port, 0, 3, timeout_s=4.0), lambda: call(port, 1, 3, timeout_s=0.8))
    assert second.roll.missing in ((2,), (1, 2)), "a status may be one host old"
    assert not second.all_callers
    # by the time of the server it had gone
    assert first.roll.missing == (1, 2)
    assert [item.host for item in first.left] == ["node1"]


def test_bad_two_hosts_with_one_number() -> None:
    port = free_port()
    answers = together(
        lambda: call(port, 0, 3, timeout_s=9.0),
        lambda: call(port, 1, 3, timeout_s=9.0, name="a"),
        lambda: call(port, 1, 3, timeout_s=9.0, name="b"),
    )
    for answer in answers:
        assert not answer.complete
        assert answer.roll.missing == (2,)
        assert [item.rank for item in answer.roll.surplus] == [1]
        # all have called: nobody waits for the whole time
        assert answer.roll.waited_s < 9.0


def test_bad_two_hosts_that_are_the_first() -> None:
    port = free_port()
    answers = together(lambda: call(port, 0, name="a", timeout_s=6.0), lambda: call(port, 0, name="b", timeout_s=6.0))
    assert sum(answer.served for answer in answers) == 1
    for answer in answers:
        assert answer.roll.missing == (1,)
        assert len(answer.roll.surplus) == 1


def test_bad_a_number_beyond_the_last_host() -> None:
    port = free_port()
    answers = together(lambda: call(port, 0, timeout_s=6.0), lambda: call(port, 5, timeout_s=6.0))
    assert all([item.rank for item in answer.roll.surplus] == [5] for answer in answers)


def test_bad_hosts_that_expect_different_numbers_of_hosts() -> None:
    port = free_port()
    first, second = together(lambda: call(port, 0, 2), lambda: call(port, 1, 3))
    assert [(item.host, item.host_count) for item in first.disagreeing] == [("node1", 3)]
    assert second.disagreeing == first.disagreeing
    assert not first.complete
    assert not second.complete


@pytest.mark.slow
def test_bad_another_job_on_the_same_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership_check, "_PATIENCE_S", 0.3)
    port = free_port()
    first, second = together(lambda: call(port, 0, timeout_s=2.0), lambda: call(port, 1, timeout_s=2.0, key="job 2"))
    assert second.roll is None
    assert [(item.kind, item.detail) for item in second.problems] == [("other-run", "node0")]
    assert [(item.kind, item.detail) for item in first.problems] == [("other-run", "node1")]
    assert first.roll.missing == (1,)


def test_bad_another_version_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership_check, "_PATIENCE_S", 0.2)
    line = json.dumps({"distcheck": "roll", "v": 99, "version": "9.0"}, separators=(",", ":")).encode() + b"\n"
    with server(line) as port:
        answer = call(port, 1)
    (problem,) = answer.problems
    assert problem.kind == "other-version"
    assert "9.0" in problem.detail


@pytest.mark.slow
def test_bad_a_caller_of_another_version_is_told_and_named() -> None:
    port = free_port()

    def old() -> MembershipAnswer:
        with _connected(port) as connection:
            connection.sendall(b'{"distcheck":"roll","v":0,"version":"0.0.1","host":"old"}\n')
            assert json.loads(connection.recv(4096))["refused"] == "other-version"
        return MembershipAnswer(None)

    answer, _ = together(lambda: call(port, 0, timeout_s=1.0), old)
    (problem,) = answer.problems
    assert (problem.kind, problem.detail) == ("other-version", "old runs distcheck 0.0.1")


@pytest.mark.slow
def test_bad_a_caller_that_dies_is_missing_again() -> None:
    port = free_port()

    def dies() -> MembershipAnswer:
        with _connected(port) as connection:
            connection.sendall(_hello(port, 1, 2, instance="short-lived", host="node1", complete=False))
        return MembershipAnswer(None)

    answer, _ = together(lambda: call(port, 0, 3, timeout_s=1.0), dies)
    assert answer.roll.missing == (1, 2)
    assert [item.host for item in answer.left] == ["node1"]


@pytest.mark.slow
def test_bad_a_server_that_dies_is_lost() -> None:
    with server(lambda called: _answer(called, "job 1", of=2, present=1, missing="1")) as port:
        answer = call(port, 1, timeout_s=1.0)
    assert answer.roll is None
    assert answer.problems[0].kind == "lost"


ALL_HERE = {"done": True, "of": 2, "roll": {"world_size": 2, "present": 2, "missing": ""}, "all_callers": True}


@pytest.mark.parametrize("how", ["without a tag", "another key", "to another call", "changed"])
def test_bad_who_takes_the_port_first_and_does_not_know_the_key_is_not_believed(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any user of the first host could: the caller sent its key, and believed the answer."""
    monkeypatch.setattr(membership_check, "_PATIENCE_S", 0.2)
    heard: list[bytes] = []

    def impostor(called: bytes) -> bytes:
        heard.append(called)
        if how == "without a tag":
            return membership_protocol.make_line(**ALL_HERE)
        if how == "to another call":
            other = membership_protocol.make_line(instance="another")
            return _answer(other, "job 1", **ALL_HERE)
        line = _answer(called, "job 1" if how == "changed" else "guess", **ALL_HERE)
        return line.replace(b'"present":2', b'"present":1')

    with server(impostor) as port:
        answer = call(port, 1)
    assert (answer.roll, [item.kind for item in answer.problems]) == (None, ["other-run"])
    key = membership_protocol.digest("job 1")
    assert all(key not in line and key.hex().encode() not in line for line in heard)


def test_good_who_knows_the_key_is_believed() -> None:
    with server(lambda called: _answer(called, "job 1", **ALL_HERE)) as port:
        assert call(port, 1).complete


# nobody, or somebody else, listens


def test_bad_nobody_listens() -> None:
    answer = call(free_port(), 1, timeout_s=0.5)
    assert answer.roll is None
    assert [(item.kind, item.own) for item in answer.problems] == [("refused", True)]


def test_bad_a_name_that_leads_nowhere() -> None:
    answer = call(free_port(), 1, address="no-such-host.invalid", timeout_s=0.5)
    assert [item.kind for item in answer.problems] == ["unresolvable"]


@pytest.mark.parametrize(
    ("said", "first", "what"),
    [
        (b"HTTP/1.1 400 Bad Request\r\nServer: x\r\n\r\n", False, "a web server or proxy (HTTP/1.1 400 Bad Request)"),
        (b"SSH-2.0-OpenSSH_9.2p1\r\n", True, "SSH (SSH-2.0-OpenSSH_9.2p1)"),
        (b"-ERR unknown command\r\n", False, "Redis (-ERR unknown command)"),
        (b"\x15\x03\x01\x00\x02\x02\x46", False, "a TLS server"),
        (b"\x00\x00\x12\x04\x00\x00\x00\x00\x00", True, "an HTTP/2 or gRPC server"),
        (b"hello there\n", True, "a program that answers 'hello there'"),
    ],
)
def test_bad_another_program_is_recognised(
    said: bytes, first: bool, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(membership_check, "_PATIENCE_S", 0.2)
    with server(said, speaks_first=first) as port:
        answer = call(port, 1)
        assert recognise("127.0.0.1", port) == what
    assert [(item.kind, item.detail) for item in answer.problems] == [("foreign", what)]
    assert answer.roll is None


@pytest.mark.slow
def test_bad_a_listener_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership_check, "SILENCE_S", 0.3)
    with server(None) as port:
        answer = call(port, 1, timeout_s=1.0)
        assert recognise("127.0.0.1", port, 0.6) == "something that never answers"
    assert [item.kind for item in answer.problems] == ["silent"]


@pytest.mark.slow
def test_bad_a_listener_that_closes() -> None:
    with server(b"", closes=True) as port:
        answer = call(port, 1, timeout_s=0.8)
        assert recognise("127.0.0.1", port) == "something that closes the connection"
    assert [item.kind for item in answer.problems] == ["closed"]


@pytest.mark.slow
def test_bad_the_port_of_the_roll_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = int(other.getsockname()[1])
        with pytest.raises(MembershipError, match="something that never answers is there") as raised:
            call(port, 0, timeout_s=5.0)
    assert raised.value.problem == MembershipProblem(
        "port-taken", "127.0.0.1", port, "something that never answers is there", own=True
    )


def test_bad_what_can_not_be_asked() -> None:
    with pytest.raises(ValueError, match="payload"):
        call(free_port(), 0, payload="x" * (MOST_PAYLOAD_BYTES + 1))
    with pytest.raises(ValueError, match="no roll of 0 hosts"):
        call(free_port(), 0, 0)
    with pytest.raises(ValueError, match="port 0"):
        call(0, 0)


def test_good_recognise_knows_a_roll_call() -> None:
    port = free_port()
    seen: list[str | None] = []

    def look() -> MembershipAnswer:
        time.sleep(0.3)
        seen.append(recognise("127.0.0.1", port, 1.5))
        return call(port, 1, timeout_s=5.0)

    together(lambda: call(port, 0, timeout_s=8.0), look)
    assert seen == ["a membership check of distcheck"]


def test_good_recognise_says_nothing_where_nothing_is() -> None:
    assert recognise("127.0.0.1", free_port()) is None


# the pieces


@given(st.binary(max_size=200))
def test_good_any_bytes_can_be_described(said: bytes) -> None:
    assert describe_bytes(said).isprintable()


@given(st.frozensets(st.integers(0, 500)))
def test_good_ranges_survive_the_wire(numbers: frozenset[int]) -> None:
    assert membership_protocol._read_ranges(rank_ranges(numbers), 501) == tuple(sorted(numbers))


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = ("host", "node_rank", "nproc", "host_count", "payload", "roll", "callers", "left", "disagreeing", "ranks", "of")


@given(st.dictionaries(st.sampled_from(NAMES), PLAIN))
def test_good_whatever_comes_over_the_wire_is_read_or_left_out(said: dict[str, Any]) -> None:
    meeting = membership_protocol.Rendezvous(HostCheckIn("me", 1, 2, 3), 3, "node0", 1, 0.0, 1.0, b"", "", None)
    found = membership_protocol.host_call(said)
    assert found.host.isprintable()
    assert found.node_rank is None or found.node_rank >= 0
    answer = membership_protocol.read_answer(meeting, said)
    assert answer.roll is not None
    assert all(number >= 0 for number in answer.roll.missing)
    assert membership_protocol.own_answer(meeting, said).roll is not None


@given(st.binary(max_size=100))
def test_good_lines_that_are_not_ours_are_nothing(line: bytes) -> None:
    assert membership_protocol.read_line(line) is None or line.startswith(ROLL_MARK)


def test_good_own_addresses_are_known_without_a_packet() -> None:
    assert is_own_address("127.0.0.1")
    assert is_own_address("127.3.2.1")
    assert is_own_address("::1")
    assert not is_own_address("192.0.2.1")
    assert not is_own_address("no address")


def test_good_a_name_is_resolved_once_for_each_address() -> None:
    assert resolve("127.0.0.1", 80) == ("127.0.0.1",)
    assert resolve("[::1]", 80) == ("::1",)


def test_good_loopback_listens_on_loopback_alone() -> None:
    with listen("localhost", 0) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"
    with listen("192.0.2.1", 0) as listener:
        assert listener.getsockname()[0] in ("::", "0.0.0.0")


# what a caller says


def _hello(port: int, rank: int, count: int, *, instance: str, payload: str = "", **more: Any) -> bytes:
    own = HostCheckIn(str(more.get("host", f"node{rank}")), rank, 8, count, payload)
    meeting = membership_protocol.Rendezvous(
        own, count, "127.0.0.1", port, 0.0, 1.0, membership_protocol.digest("job 1"), instance, None
    )
    return meeting.call(**membership_protocol.fields_of(own))


def _answer(called: bytes, key: str, **fields: Any) -> bytes:
    """The line of a server that knows a key, to the call that it has heard."""
    line = membership_protocol.make_line(instance="server", **fields)
    return membership_protocol.with_tag(line, membership_protocol.digest(key), json.loads(called)["instance"])


def _connected(port: int) -> socket.socket:
    deadline = time.monotonic() + LATE_S
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), 5)
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.02)
