"""The membership check of hosts over plain TCP, before any rank starts: present, missing and duplicate hosts.

The rendezvous host serves and the others call it. All learn the same result within one time limit. It needs no torch,
and reads nothing from the network but bounded JSON. The hosts are compared later, and :mod:`.connectivity` checks
whether they reach each other's other ports.

Protocol: the caller sends one line. The server answers with one line a beat, and the last one contains ``done``. Each
line ends with a tag that only who knows the key of the job can make (HMAC-SHA256, RFC 2104). That of an answer is bound
to the ``instance`` of the call. So no side sends the key, and no answer to another call counts. Refusals have no tag.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import json
import os
import random
import re
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from distcheck._version import __version__
from distcheck.checks.host.ports import STORE_HELLO, WEB_HELLO
from distcheck.core.model import expand_ranges, rank_ranges

from .records import Caller, Roll
from .sockets import (
    ROLL_MARK,
    describe_bytes,
    first_bytes,
    is_own_address,
    listen,
    open_files,
    resolve,
    set_user_timeout,
)

#: Version of the protocol; another one is refused, and named.
PROTOCOL = 2
#: Longest payload of a host, in bytes as JSON: codes and a few sentences.
MOST_PAYLOAD_BYTES = 8 << 10
#: Longest line of a caller: a payload and its envelope.
_MOST_LINE_BYTES = 2 * MOST_PAYLOAD_BYTES
#: The last line holds as many callers as fit, for each host ...
_MOST_ANSWER_BYTES = 256 << 10
#: ... and for all together, so that thousands of hosts get their answer within a second over 1 Gbit/s.
_MOST_ANSWERS_BYTES = 64 << 20
#: Unknown and surplus callers that are named; others are counted.
_MOST_NAMED = 16
#: Seconds between two lines of the server, and without any line after which a connection counts as lost.
_BEAT_S = 2.0
_LOST_S = 10.0
#: Seconds to make one connection; a running host answers in a fraction of one.
_CONNECT_S = 3.0
#: Seconds for the server's first line, and for a caller's.
_SILENCE_S = 4.0
#: Seconds that a caller keeps trying if another program answers, or if this host has no route: the port may belong to a
#: job that is just ending.
_PATIENCE_S = 8.0
#: Seconds after which the check ends early if it can no longer be complete: enough for hosts that start together.
_SETTLE_S = 3.0
#: Seconds after the limit in which the last line is sent.
_GRACE_S = 0.8
#: Seconds between two checks for missing hosts, which cost a step for each host.
_PROGRESS_S = 0.2
_RETRY_FIRST_S, _RETRY_MOST_S = 0.1, 1.0
#: Connections that have not joined; of more, the oldest is dropped: each may hold a line.
_MOST_IDLE = 1024
#: Open files that the process needs in addition to the callers.
_SPARE_FILES = 64


class HostCheckIn(NamedTuple):
    """One host that joined, as it described itself."""

    host: str
    #: None: the launcher gives none, and the check counts hosts only
    node_rank: int | None = None
    #: ranks that it will start
    nproc: int | None = None
    #: number of hosts that it expects
    host_count: int | None = None
    #: what it sends, such as codes of its own findings
    payload: str = ""
    #: its address; empty for the host that serves
    address: str = ""


class MembershipProblem(NamedTuple):
    """Why the membership could not be checked here."""

    #: at a caller: ``refused``, ``timeout``, ``no-route``, ``unresolvable``, ``silent``, ``closed``, ``foreign``,
    #: ``other-run``, ``other-version``, ``lost``; at the server: ``port-taken``, ``port-privileged``,
    #: ``cannot-listen``, ``open-files``, ``other-run``, ``other-version``, ``not-own-address``
    kind: str
    address: str
    port: int
    #: the system's message, what answered, or the caller
    detail: str = ""
    #: the address belongs to this host itself
    own: bool = False


class MembershipAnswer(NamedTuple):
    """The result of the membership check, as this host knows it."""

    #: None if no server was reached; numbers are node ranks
    roll: Roll | None
    #: hosts by node rank; with very many hosts each caller learns only some
    callers: tuple[HostCheckIn, ...] = ()
    #: ``callers`` are all hosts that joined
    all_callers: bool = True
    #: ranks that the hosts will start together; None if one host did not state it
    ranks: int | None = None
    #: hosts that expect another number of hosts than the server
    disagreeing: tuple[HostCheckIn, ...] = ()
    #: hosts that joined and disconnected before the end
    left: tuple[HostCheckIn, ...] = ()
    problems: tuple[MembershipProblem, ...] = ()
    #: this host served
    served: bool = False
    #: a host had no node rank, so ``roll.missing`` counts hosts and does not name them
    anonymous: bool = False
    #: name of this host, and its node rank
    host: str = ""
    node_rank: int | None = None

    @property
    def complete(self) -> bool:
        """Return whether every host joined once, and all belong to one job."""
        roll = self.roll
        return roll is not None and roll.present >= roll.world_size and not (roll.surplus or self.disagreeing)


class MembershipError(OSError):
    """This host should serve the check and cannot listen; ``problem`` states why."""

    def __init__(self, problem: MembershipProblem) -> None:
        super().__init__(f"port {problem.port}: {problem.detail}")
        self.problem = problem


#: Called while the host waits: hosts that joined, hosts expected, missing ones in short.
Progress = Callable[[int, int, str], None]


def call_roll(
    *,
    host_count: int,
    node_rank: int | None,
    address: str,
    port: int,
    timeout_s: float,
    name: str,
    payload: str = "",
    nproc: int | None = None,
    key: str = "",
    progress: Progress | None = None,
) -> MembershipAnswer:
    """Check that all hosts of a job are there; return at the latest one second after ``timeout_s``.

    The host with node rank 0 serves; where ranks are not given, the host that owns ``address``. All others call it, and
    go on trying until the time is over, since it may start later.

    :param address: name or address of the first host, as the launch gives it
    :param name: what this host is called
    :param payload: anything short; at most MOST_PAYLOAD_BYTES
    :param key: what names the job (the rendezvous id, the scheduler's job): callers of another one are refused
    :raises MembershipError: where this host has to listen and can't
    :raises ValueError: for a payload that is too long, or numbers that can't be
    """
    if host_count < 1 or (node_rank is not None and node_rank < 0) or not 0 < port < 65536:
        raise ValueError(f"no roll of {host_count} hosts can be called on port {port} by node {node_rank}")
    if len(json.dumps(payload)) > MOST_PAYLOAD_BYTES:
        raise ValueError(f"a payload has at most {MOST_PAYLOAD_BYTES} bytes as JSON")
    start = time.monotonic()
    own = HostCheckIn(name[:256], node_rank, nproc, host_count, payload)
    rendezvous = _Rendezvous(
        own, host_count, address, port, start, timeout_s, _digest(key), os.urandom(8).hex(), progress
    )
    return _join(rendezvous)._replace(host=own.host, node_rank=node_rank)


def recognise(address: str, port: int, timeout_s: float = 1.0) -> str | None:
    """Return what listens on a port, by its bytes: ``SSH (SSH-2.0-OpenSSH_9.2)``, ``a web server (HTTP/1.1 400 …)`` ….

    :param timeout_s: for all of it
    :return: None where no connection can be made
    """
    end = time.monotonic() + timeout_s
    silent = False
    seen = None
    # some programs send first, others only answer, each in its own protocol
    for hello, share in ((b"", 0.3), (STORE_HELLO, 0.4), (WEB_HELLO, 0.6), (_line(ask="who"), 1.0)):
        limit = max(0.05, (end - time.monotonic()) * share)
        try:
            message = first_bytes(address, port, hello, limit)
        except OSError:
            return seen or ("something that never answers" if silent else None)
        if message:
            return describe_bytes(message)
        if message is None:
            silent = True
        else:
            seen = "something that closes the connection"
        if end - time.monotonic() < 0.02:
            break
    return seen or "something that never answers"


class _Rendezvous(NamedTuple):
    """The task of this host, and its deadline."""

    own: HostCheckIn
    host_count: int
    address: str
    port: int
    start: float
    timeout_s: float
    key: bytes
    #: identifies this call among all others, of the same host too
    instance: str
    progress: Progress | None

    @property
    def end(self) -> float:
        return self.start + self.timeout_s

    def report(self, present: int, of: int, missing: str) -> None:
        if self.progress is not None:
            self.progress(present, of, missing)

    def call(self, **more: Any) -> bytes:
        """Return the line of a caller."""
        return _with_tag(_line(instance=self.instance, **more), self.key, _CALL)

    def answer(self, **more: Any) -> bytes:
        """Return a line of the server, without the tag for one caller."""
        return _line(instance=self.instance, **more)


class _ServedElsewhere(Exception):  # noqa: N818 - no error: another process serves this roll, so this one calls it
    """Another process serves."""


def _join(rendezvous: _Rendezvous) -> MembershipAnswer:
    rank = rendezvous.own.node_rank
    if rank == 0:
        with contextlib.suppress(_ServedElsewhere):
            return _Server(rendezvous).run()
    return _call(rendezvous)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()


def _line(**fields: Any) -> bytes:
    message = {"distcheck": "roll", "v": PROTOCOL, "version": __version__, **fields}
    return json.dumps(message, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"


#: What the tag of a caller's line is bound to; that of a server's line is bound to the instance of the call.
_CALL = "call"
_TAG = re.compile(rb',"tag":"([0-9a-f]{64})"\}\Z')


def _with_tag(line: bytes, key: bytes, to: str) -> bytes:
    """Return a line with the tag of who knows the key.

    :param to: ``call``, or the instance of the call that the line answers
    """
    body = line.rstrip(b"\n")
    return body[:-1] + b',"tag":"' + _tag(body, key, to) + b'"}\n'


def _has_tag(line: bytes, key: bytes, to: str) -> bool:
    """Return whether a line, without its end, has the tag of who knows the key."""
    found = _TAG.search(line)
    return found is not None and hmac.compare_digest(found[1], _tag(line[: found.start()] + b"}", key, to))


def _tag(body: bytes, key: bytes, to: str) -> bytes:
    return hmac.new(key, to.encode() + b"\0" + body, hashlib.sha256).hexdigest().encode()


def _read_line(line: bytes) -> dict[str, Any] | None:
    """Return a line of our protocol; None for any other."""
    if not line.startswith(ROLL_MARK):
        return None
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def _text(value: object, most: int = 256) -> str:
    """Return a text from the network: bounded, without control characters for a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in value[:most]) if isinstance(value, str) else ""


def _count(value: object, most: int = 1 << 20) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most else None


def _host_call(message: Mapping[str, Any], address: str = "") -> HostCheckIn:
    return HostCheckIn(
        _text(message.get("host")),
        _count(message.get("node_rank")),
        _count(message.get("nproc")),
        _count(message.get("host_count")),
        payload if isinstance(payload := message.get("payload"), str) and len(payload) <= MOST_PAYLOAD_BYTES else "",
        address or _text(message.get("address")),
    )


def _plain(call: HostCheckIn) -> dict[str, Any]:
    return {name: value for name, value in call._asdict().items() if value not in (None, "")}


# the server


class _Peer:
    """A connection to the server."""

    __slots__ = ("address", "answered", "call", "instance", "number", "pending", "received", "since", "socket")

    def __init__(self, connection: socket.socket, address: str, since: float) -> None:
        self.socket = connection
        self.address = address
        self.since = since
        self.received = bytearray()
        self.pending = bytearray()
        #: its first line was answered; nothing after it counts
        self.answered = False
        self.call: HostCheckIn | None = None
        #: its node rank; None: it has not joined, or is surplus
        self.number: int | None = None
        self.instance = ""


class _Server:
    """Serves all hosts in one thread, and sends all of them the same result."""

    def __init__(self, rendezvous: _Rendezvous) -> None:
        self.rendezvous = rendezvous
        self.selector = selectors.DefaultSelector()
        self.listeners: list[socket.socket] = []
        self.peers: dict[int, _Peer] = {}
        #: caller of each node rank; -1, -2 … for callers without one
        self.holders: dict[int, _Peer | None] = {}
        self.surplus: list[_Peer] = []
        self.callers: dict[str, _Peer] = {}
        #: callers that expect another number of hosts
        self.disagreeing = 0
        self.anonymous = 0
        self.left: dict[str, HostCheckIn] = {}
        self.problems: dict[tuple[str, str], MembershipProblem] = {}
        self.accept_again = 0.0
        self.settled: float | None = None
        self.missing_text = ""
        self.finder: _MasterFinder | None = None
        self._rank_info(rendezvous.own, None)

    def run(self) -> MembershipAnswer:
        """Listen, wait, answer; raise _Pass if another process serves, MembershipError if this host cannot listen."""
        with open_files(self.rendezvous.host_count + _SPARE_FILES), contextlib.closing(self):
            self._listen()
            self._serve()
            return self._dismiss()

    def close(self) -> None:
        """Close all sockets."""
        if self.finder is not None:
            self.finder.stop()
        for peer in list(self.peers.values()):
            peer.socket.close()
        for listener in self.listeners:
            listener.close()
        self.selector.close()

    def _listen(self) -> None:
        rendezvous = self.rendezvous
        try:
            # no other host has to reach this one
            address = "127.0.0.1" if rendezvous.host_count == 1 else rendezvous.address
            self.listeners.append(listen(address, rendezvous.port, rendezvous.host_count))
        except OSError as error:
            if error.errno == errno.EADDRINUSE and self._same_roll("127.0.0.1"):
                raise _ServedElsewhere from None
            kind = {errno.EADDRINUSE: "port-taken", errno.EACCES: "port-privileged"}.get(error.errno or 0)
            detail = error.strerror or str(error)
            if kind == "port-taken":
                held = recognise("127.0.0.1", rendezvous.port, 0.6)
                detail = f"{held} is there" if held is not None else detail
            problem = MembershipProblem(kind or "cannot-listen", rendezvous.address, rendezvous.port, detail, own=True)
            raise MembershipError(problem) from error
        for listener in self.listeners:
            self.selector.register(listener, selectors.EVENT_READ)

    def _same_roll(self, address: str) -> bool:
        """Return whether another process, which started before, serves the same check there."""
        return _ask_who(address, self.rendezvous, 1.0) is not None

    def _serve(self) -> None:
        """Wait until all hosts joined, none can join any more, or the time is over."""
        rendezvous = self.rendezvous
        beat = reported = 0.0
        changed = True
        self.finder = None if rendezvous.host_count == 1 else _MasterFinder(rendezvous)
        while True:
            now = time.monotonic()
            if now >= rendezvous.end or self._is_decided(now):
                return
            if self.finder is not None and self.finder.other_master:
                raise _ServedElsewhere
            if changed and now - reported >= _PROGRESS_S:
                self.missing_text = self._missing_in_short()
                rendezvous.report(self.present, rendezvous.host_count, self.missing_text)
                reported, changed = now, False
            if now - beat >= _BEAT_S:
                self._beat(now)
                beat = now
            self._accept_again(now)
            for item, mask in self.selector.select(max(0.01, min(0.2, rendezvous.end - now))):
                if item.data is None:
                    self._accept(item.fileobj)
                    continue
                peer: _Peer = item.data
                if mask & selectors.EVENT_WRITE:
                    self._flush(peer)
                if mask & selectors.EVENT_READ and peer.socket.fileno() >= 0:
                    changed = self._receive(peer) or changed

    @property
    def present(self) -> int:
        """Return hosts with different numbers."""
        return len(self.holders)

    def _is_decided(self, now: float) -> bool:
        rendezvous = self.rendezvous
        if self.present >= rendezvous.host_count:
            return True
        if self.disagreeing or self.present + len(self.surplus) >= rendezvous.host_count:
            self.settled = self.settled or now + _SETTLE_S
            return now >= self.settled
        self.settled = None
        return False

    def _calls(self) -> Iterator[HostCheckIn]:
        for peer in self.holders.values():
            yield self.rendezvous.own if peer is None or peer.call is None else peer.call
        for peer in self.surplus:
            if peer.call is not None:
                yield peer.call

    def _disagrees(self, call: HostCheckIn) -> bool:
        return call.host_count is not None and call.host_count != self.rendezvous.host_count

    def _accept(self, listener: Any) -> None:
        for _ in range(256):
            try:
                connection, address = listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    self._out_of_files(listener, error)
                    return
                continue  # the caller disconnected before it was accepted
            connection.setblocking(False)
            if len(self.peers) - len(self.callers) >= max(_MOST_IDLE, 2 * self.rendezvous.host_count):
                self._drop(next(peer for peer in self.peers.values() if peer.call is None))
            peer = _Peer(connection, address[0].removeprefix("::ffff:"), time.monotonic())
            self.peers[connection.fileno()] = peer
            self.selector.register(connection, selectors.EVENT_READ, peer)
            set_user_timeout(connection, _LOST_S)

    def _out_of_files(self, listener: socket.socket, error: OSError) -> None:
        """Drop the oldest caller that sends nothing; if all have joined, the limit is too low for this job."""
        idle = [peer for peer in self.peers.values() if peer.call is None]
        if idle:
            self._drop(min(idle, key=lambda peer: peer.since))
            return
        self._note("open-files", "", f"{error.strerror}, with {len(self.peers)} callers")
        self.selector.unregister(listener)
        self.accept_again = time.monotonic() + 1.0

    def _accept_again(self, now: float) -> None:
        if self.accept_again and now >= self.accept_again:
            self.accept_again = 0.0
            for listener in self.listeners:
                with contextlib.suppress(KeyError):
                    self.selector.register(listener, selectors.EVENT_READ)

    def _receive(self, peer: _Peer) -> bool:
        """Read what arrived; return whether it changes the membership."""
        try:
            part = peer.socket.recv(_MOST_LINE_BYTES)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            part = b""
        if not part:
            return self._drop(peer)
        if peer.answered:
            return False  # it has sent all that counts; more of it must take neither memory nor answers
        peer.received += part
        line, newline, _ = peer.received.partition(b"\n")
        if not newline:
            mark = bytes(peer.received[: len(ROLL_MARK)])
            if len(peer.received) > _MOST_LINE_BYTES or not ROLL_MARK.startswith(mark):
                return self._drop(peer)
            return False
        message = _read_line(bytes(line))
        if message is None:
            return self._drop(peer)
        known = _has_tag(bytes(line), self.rendezvous.key, _CALL)
        peer.answered = True
        peer.received.clear()
        return self._hear(peer, message, known)

    def _hear(self, peer: _Peer, message: Mapping[str, Any], known: bool) -> bool:
        """Answer the line of a caller.

        :param known: it has the tag of who knows the key
        """
        rendezvous = self.rendezvous
        if message.get("v") != PROTOCOL:
            version = _text(message.get("version"), 40) or "unknown"
            self._note("other-version", peer.address, f"{_text(message.get('host'))} runs distcheck {version}")
            return self._turn_away(peer, "other-version")
        if not known:
            if message.get("ask") != "who":
                self._note("other-run", peer.address, _text(message.get("host")))
            return self._turn_away(peer, "other-run")
        peer.instance = _text(message.get("instance"), 64)
        if message.get("ask") == "who":
            self._answer_to(peer, rendezvous.answer(of=rendezvous.host_count, host=rendezvous.own.host))
            return False
        peer.call = _host_call(message, peer.address)
        older = self.callers.get(peer.instance)
        if (
            older is not None
        ):  # the same call over a new connection: the old one is dead, whether this host knows it or not
            self._drop(older)
        self.callers[peer.instance] = peer
        self.left.pop(peer.instance, None)
        self.disagreeing += self._disagrees(peer.call)
        self._rank_info(peer.call, peer)
        self._answer_to(peer, self._status())
        return True

    def _rank_info(self, call: HostCheckIn, peer: _Peer | None) -> None:
        number = call.node_rank
        if number is None:
            self.anonymous += 1
            number = -self.anonymous
        if number in self.holders or number >= self.rendezvous.host_count:
            if peer is not None:
                self.surplus.append(peer)
            return
        self.holders[number] = peer
        if peer is not None:
            peer.number = number

    def _drop(self, peer: _Peer) -> bool:
        """Remove a connection; return whether it was a caller."""
        if peer.socket.fileno() < 0:
            return False
        del self.peers[peer.socket.fileno()]
        self.selector.unregister(peer.socket)
        peer.socket.close()
        call = peer.call
        if call is None:
            return False
        del self.callers[peer.instance]
        self.disagreeing -= self._disagrees(call)
        if len(self.left) < _MOST_NAMED:
            self.left[peer.instance] = call
        if peer.number is None:
            self.surplus.remove(peer)
            return True
        del self.holders[peer.number]
        heir = next((other for other in self.surplus if other.call and other.call.node_rank == peer.number), None)
        if heir is not None:
            self.surplus.remove(heir)
            heir.number = peer.number
            self.holders[peer.number] = heir
        return True

    def _turn_away(self, peer: _Peer, why: str) -> bool:
        """Send the reason, and shut the connection; the caller closes it."""
        self._send(peer, _line(refused=why, host=self.rendezvous.own.host))
        return False

    def _note(self, kind: str, address: str, detail: str) -> None:
        if len(self.problems) < _MOST_NAMED:
            problem = MembershipProblem(kind, address or self.rendezvous.address, self.rendezvous.port, detail)
            self.problems.setdefault((kind, address), problem)

    def _status(self) -> bytes:
        return self.rendezvous.answer(of=self.rendezvous.host_count, present=self.present, missing=self.missing_text)

    def _missing(self) -> tuple[int, ...]:
        """Return the node ranks that no host has; hosts without one count as the first free ones."""
        free = [number for number in range(self.rendezvous.host_count) if number not in self.holders]
        return tuple(free[sum(number < 0 for number in self.holders) :])

    def _missing_in_short(self) -> str:
        text = rank_ranges(self._missing())
        return text if len(text) <= 200 else text[: text.rfind(",", 0, 200)] + ",…"

    def _beat(self, now: float) -> None:
        """Send a sign of life to all callers, and close connections that never joined."""
        line = self._status()
        for peer in list(self.peers.values()):
            if peer.call is None:
                if now - peer.since > _SILENCE_S:
                    self._drop(peer)
            elif not peer.pending:
                self._answer_to(peer, line)

    def _answer_to(self, peer: _Peer, line: bytes) -> None:
        """Send a line with the tag for the call of this peer."""
        self._send(peer, _with_tag(line, self.rendezvous.key, peer.instance))

    def _send(self, peer: _Peer, line: bytes) -> None:
        peer.pending += line
        self._flush(peer)

    def _flush(self, peer: _Peer) -> None:
        try:
            while peer.pending:
                sent = peer.socket.send(peer.pending)
                del peer.pending[:sent]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self._drop(peer)
            return
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if peer.pending else 0)
        if self.selector.get_key(peer.socket).events != wanted:
            self.selector.modify(peer.socket, wanted, peer)

    def _dismiss(self) -> MembershipAnswer:
        """Send the result to all callers, and wait a little until they have it."""
        answer = self._answer()
        for listener in self.listeners:
            listener.close()
        callers = [peer for peer in self.peers.values() if peer.call is not None]
        if callers:
            share = min(_MOST_ANSWER_BYTES, _MOST_ANSWERS_BYTES // len(callers))
            line = _write_answer(self.rendezvous, answer, share)
            for peer in callers:
                self._answer_to(peer, line)
            end = time.monotonic() + _GRACE_S
            while any(peer.pending for peer in self.peers.values()) and time.monotonic() < end:
                for item, mask in self.selector.select(0.05):
                    if item.data is not None and mask & selectors.EVENT_WRITE:
                        self._flush(item.data)
                    elif item.data is not None and item.data.socket.fileno() >= 0:
                        with contextlib.suppress(OSError):
                            if not item.data.socket.recv(4096):
                                self._drop(item.data)
        return answer

    def _answer(self) -> MembershipAnswer:
        rendezvous = self.rendezvous
        calls = sorted(
            (rendezvous.own if peer is None or peer.call is None else peer.call for peer in self.holders.values()),
            key=lambda call: (call.node_rank is None, call.node_rank or 0, call.host),
        )
        surplus = [peer.call for peer in self.surplus if peer.call is not None]
        known = [call.nproc for call in calls if call.nproc is not None]
        roll = Roll(
            world_size=rendezvous.host_count,
            present=self.present,
            missing=self._missing(),
            surplus=tuple(Caller(call.node_rank or 0, call.host, 0, call.host_count) for call in surplus[:_MOST_NAMED]),
            waited_s=round(time.monotonic() - rendezvous.start, 3),
            timeout_s=rendezvous.timeout_s,
            of="hosts",
        )
        elsewhere = self.finder.elsewhere if self.finder is not None and roll.missing else ""
        if elsewhere:
            self._note("not-own-address", elsewhere, "")
        return MembershipAnswer(
            roll,
            tuple(calls),
            ranks=sum(known) if len(known) == len(calls) else None,
            disagreeing=tuple(call for call in self._calls() if self._disagrees(call))[:_MOST_NAMED],
            left=tuple(self.left.values()),
            problems=tuple(self.problems.values()),
            served=True,
            anonymous=self.anonymous > 0,
        )


def _write_answer(rendezvous: _Rendezvous, answer: MembershipAnswer, most: int) -> bytes:
    """Return the last line, with as many callers as fit: those with a payload first."""
    calls = sorted(answer.callers, key=lambda call: not call.payload)
    room = most - 4096
    chosen = []
    for call in calls:
        room -= len(json.dumps(_plain(call))) + 1
        if room < 0:
            break
        chosen.append(call)
    roll = {
        "world_size": rendezvous.host_count,
        "present": 0 if answer.roll is None else answer.roll.present,
        "missing": "" if answer.roll is None else rank_ranges(answer.roll.missing),
        "surplus": [] if answer.roll is None else [list(item) for item in answer.roll.surplus],
    }
    return rendezvous.answer(
        done=True,
        of=rendezvous.host_count,
        roll=roll,
        callers=[_plain(call) for call in chosen],
        all_callers=len(chosen) == len(calls),
        ranks=answer.ranks,
        disagreeing=[_plain(call._replace(payload="")) for call in answer.disagreeing],
        left=[_plain(call._replace(payload="")) for call in answer.left],
        anonymous=answer.anonymous,
    )


class _MasterFinder:
    """Checks in parallel to the server whether the address leads to another server of the same check.

    Two hosts that both take themselves for the first one would each wait for the other: the one that the address does
    not lead to finds the other and calls it.
    """

    def __init__(self, rendezvous: _Rendezvous) -> None:
        self.rendezvous = rendezvous
        self.other_master = False
        #: what the address leads to, if that is not this host
        self.elsewhere = ""
        self._stopped = threading.Event()
        threading.Thread(target=self._run, name="distcheck-roll", daemon=True).start()

    def stop(self) -> None:
        """Stop the check."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                addresses = resolve(self.rendezvous.address, self.rendezvous.port)
            except OSError:
                addresses = ()
            if any(is_own_address(address) for address in addresses):
                return
            self.elsewhere = ", ".join(addresses)
            for address in addresses:
                message = _ask_who(address, self.rendezvous, _CONNECT_S)
                if message is None:
                    continue
                if message.get("instance") == self.rendezvous.instance:
                    self.elsewhere = ""  # a detour leads back to this process
                    return
                self.other_master = True
                return
            self._stopped.wait(_RETRY_MOST_S)


def _ask_who(address: str, rendezvous: _Rendezvous, limit_s: float) -> dict[str, Any] | None:
    """Return the answer of the process that serves the same check there; None if there is none."""
    try:
        with socket.create_connection((address, rendezvous.port), timeout=limit_s) as connection:
            connection.sendall(rendezvous.call(ask="who"))
            line = connection.recv(_MOST_LINE_BYTES).partition(b"\n")[0]
    except OSError:
        return None
    return _read_line(line) if _has_tag(line, rendezvous.key, rendezvous.instance) else None


# the callers


class _Resolver:
    """Resolves a name in another thread: a name server may take longer than the limit."""

    def __init__(self, name: str, port: int) -> None:
        self.name, self.port = name, port
        self.addresses: tuple[str, ...] = ()
        self.error = "the name server has not answered"
        self._thread: threading.Thread | None = None

    def look(self, limit_s: float) -> tuple[str, ...]:
        """Return the addresses that are known within the limit; the earlier ones if this query takes longer."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="distcheck-resolver", daemon=True)
            self._thread.start()
        self._thread.join(limit_s)
        return self.addresses

    def _run(self) -> None:
        try:
            self.addresses = resolve(self.name, self.port)
        except OSError as error:
            self.error = error.strerror or str(error)


def _call(rendezvous: _Rendezvous) -> MembershipAnswer:
    """Call the server until it answers or the time is over."""
    resolver = _Resolver(rendezvous.address, rendezvous.port)
    problem = MembershipProblem("unresolvable", rendezvous.address, rendezvous.port, resolver.error)
    hopeless_since: float | None = None
    tried = False
    pause = _RETRY_FIRST_S
    rendezvous.report(0, rendezvous.host_count, "")
    while (left := rendezvous.end - time.monotonic()) > 0:
        addresses = resolver.look(min(left, _CONNECT_S))
        if not addresses:
            problem = MembershipProblem("unresolvable", rendezvous.address, rendezvous.port, resolver.error)
        own = [address for address in addresses if is_own_address(address)]
        if own and rendezvous.own.node_rank is None:
            with contextlib.suppress(_ServedElsewhere):
                return _Server(rendezvous).run()
        problems = []
        for number, address in enumerate(addresses):
            left = rendezvous.end - time.monotonic()
            if left <= 0:
                break
            limit_s = min(_CONNECT_S, max(0.5, left / (len(addresses) - number)), left)
            found = _talk(rendezvous, address, limit_s)
            if isinstance(found, MembershipAnswer):
                return found
            problems.append(found._replace(own=address in own))
        if problems:
            last = min(problems, key=lambda item: _TELLING.index(item.kind))
            # a try that the deadline cut short shows less than the one before it
            cut_short = last.kind in ("silent", "timeout") and time.monotonic() >= rendezvous.end - _RETRY_FIRST_S
            problem = problem if tried and cut_short else last
            tried = True
        now = time.monotonic()
        hopeless_since = (hopeless_since or now) if _is_hopeless(problem) else None
        if hopeless_since is not None and now - hopeless_since >= _PATIENCE_S:
            break
        # hosts call at different moments
        jitter = random.uniform(0.5, 1.0)  # noqa: S311
        time.sleep(max(0.0, min(pause * jitter, rendezvous.end - time.monotonic())))
        pause = min(_RETRY_MOST_S, pause * 1.5)
    return MembershipAnswer(None, all_callers=False, problems=(problem,))


#: The address with the most informative error comes first.
_TELLING = (
    "other-version", "other-run", "foreign", "lost", "silent", "closed",
    "refused", "timeout", "no-route", "unresolvable",
)  # fmt: skip
#: Messages of the system for a route that this host itself blocks: waiting does not open it.
_LOCAL = {os.strerror(number) for number in (errno.EACCES, errno.EPERM, errno.ENETUNREACH, errno.EAFNOSUPPORT)}


def _is_hopeless(problem: MembershipProblem) -> bool:
    """Return whether time alone will hardly fix it."""
    kind = problem.kind
    return kind in ("other-version", "other-run", "foreign") or (kind == "no-route" and problem.detail in _LOCAL)


def _talk(rendezvous: _Rendezvous, address: str, limit_s: float) -> MembershipAnswer | MembershipProblem:
    """Make one call: connect, send the identity, wait for the others."""

    def problem(kind: str, detail: str = "") -> MembershipProblem:
        return MembershipProblem(kind, address, rendezvous.port, detail)

    try:
        connection = socket.create_connection((address, rendezvous.port), timeout=limit_s)
    except TimeoutError:
        return problem("timeout")
    except ConnectionRefusedError as error:
        return problem("refused", error.strerror or "")
    except OSError as error:
        if error.errno == errno.ETIMEDOUT:
            return problem("timeout")
        return problem("no-route", error.strerror or str(error))
    with connection:
        if connection.getsockname() == connection.getpeername():
            # a port of the ephemeral range can be connected to itself, which is no server
            return problem("refused", os.strerror(errno.ECONNREFUSED))
        set_user_timeout(connection, _LOST_S)
        try:
            connection.sendall(rendezvous.call(**_plain(rendezvous.own)))
        except OSError as error:
            return problem("closed", error.strerror or str(error))
        return _listen_to(rendezvous, connection, problem)


def _listen_to(
    rendezvous: _Rendezvous, connection: socket.socket, problem: Callable[[str, str], MembershipProblem]
) -> MembershipAnswer | MembershipProblem:
    received = bytearray()
    status: dict[str, Any] = {}
    heard = time.monotonic()
    while True:
        now = time.monotonic()
        patience = heard + (_LOST_S if status else _SILENCE_S)
        end = rendezvous.end + (_GRACE_S if status else 0.0)
        if now >= end:
            return _own_answer(rendezvous, status) if status else problem("silent", "")
        if now >= patience:
            return problem("lost" if status else "silent", f"no word for {now - heard:.0f} s")
        connection.settimeout(max(0.01, min(patience, end) - now))
        try:
            part = connection.recv(1 << 16)
        except TimeoutError:
            continue
        except OSError as error:
            return problem("lost" if status else "closed", error.strerror or str(error))
        if not part:
            if received and not status:
                return problem("foreign", describe_bytes(bytes(received)))
            return problem("lost" if status else "closed", "it closed the connection")
        received += part
        if not status and not ROLL_MARK.startswith(bytes(received[: len(ROLL_MARK)])):
            # the rest of a foreign greeting has no use
            return problem("foreign", describe_bytes(bytes(received)))
        if len(received) > 2 * _MOST_ANSWER_BYTES:
            return problem("foreign", "a program that does not end its line")
        *lines, rest = bytes(received).split(b"\n")
        received = bytearray(rest)
        for line in lines:
            message = _read_line(line)
            if message is None:
                return problem("foreign", describe_bytes(line))
            if message.get("v") != PROTOCOL or message.get("refused") == "other-version":
                return problem(
                    "other-version", f"distcheck {_text(message.get('version'), 40)} there, {__version__} here"
                )
            if message.get("refused") or not _has_tag(line, rendezvous.key, rendezvous.instance):
                return problem("other-run", _text(message.get("host")))
            heard = time.monotonic()
            if message.get("done"):
                return _read_answer(rendezvous, message)
            if any(message.get(name) != status.get(name) for name in ("present", "missing")):
                rendezvous.report(
                    _count(message.get("present")) or 0, _count(message.get("of")) or 0, _text(message.get("missing"))
                )
            status = message


def _own_answer(rendezvous: _Rendezvous, status: Mapping[str, Any]) -> MembershipAnswer:
    """Return what is known if this host's time is over before the server's."""
    of = _count(status.get("of")) or rendezvous.host_count
    roll = Roll(
        world_size=of,
        present=_count(status.get("present")) or 0,
        missing=_read_ranges(status.get("missing"), of),
        waited_s=round(time.monotonic() - rendezvous.start, 3),
        timeout_s=rendezvous.timeout_s,
        of="hosts",
    )
    own = rendezvous.own
    return MembershipAnswer(roll, (own,), all_callers=False, disagreeing=(own,) if of != rendezvous.host_count else ())


def _read_answer(rendezvous: _Rendezvous, message: Mapping[str, Any]) -> MembershipAnswer:
    plain = message.get("roll")
    plain = plain if isinstance(plain, dict) else {}
    of = _count(plain.get("world_size")) or rendezvous.host_count
    roll = Roll(
        world_size=of,
        present=_count(plain.get("present")) or 0,
        missing=_read_ranges(plain.get("missing"), of),
        surplus=tuple(
            Caller(_count(item[0]) or 0, _text(item[1]), 0, _count(item[3]))
            for item in _listed(plain.get("surplus"))
            if isinstance(item, list) and len(item) == 4
        ),
        waited_s=round(time.monotonic() - rendezvous.start, 3),
        timeout_s=rendezvous.timeout_s,
        of="hosts",
    )
    calls = [_host_call(item) for item in _listed(message.get("callers")) if isinstance(item, dict)]
    calls.sort(key=lambda call: (call.node_rank is None, call.node_rank or 0, call.host))
    return MembershipAnswer(
        roll,
        tuple(calls),
        all_callers=bool(message.get("all_callers")),
        ranks=_count(message.get("ranks")),
        disagreeing=tuple(_host_call(item) for item in _listed(message.get("disagreeing")) if isinstance(item, dict)),
        left=tuple(_host_call(item) for item in _listed(message.get("left")) if isinstance(item, dict)),
        anonymous=bool(message.get("anonymous")),
    )


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _read_ranges(value: object, of: int) -> tuple[int, ...]:
    return tuple(expand_ranges(value, of)) if isinstance(value, str) else ()
