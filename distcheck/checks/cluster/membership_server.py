"""The host that serves the membership check."""

from __future__ import annotations

import contextlib
import errno
import selectors
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

from distcheck.checks.host.ports import STORE_HELLO, WEB_HELLO
from distcheck.core.model import rank_ranges

from .membership_protocol import (
    CALL,
    CONNECT_S,
    GRACE_S,
    LOST_S,
    MOST_ANSWER_BYTES,
    MOST_LINE_BYTES,
    PROTOCOL,
    RETRY_MOST_S,
    SILENCE_S,
    HostCheckIn,
    MembershipAnswer,
    MembershipError,
    MembershipProblem,
    Rendezvous,
    has_tag,
    host_call,
    make_line,
    read_line,
    text_of,
    with_tag,
    write_answer,
)
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

#: ... and for all together, so that thousands of hosts get their answer within a second over 1 Gbit/s.
_MOST_ANSWERS_BYTES = 64 << 20
#: Unknown and surplus callers that are named; others are counted.
_MOST_NAMED = 16
#: Seconds between two lines of the server, and without any line after which a connection counts as lost.
_BEAT_S = 2.0
#: Seconds after which the check ends early if it can no longer be complete: enough for hosts that start together.
_SETTLE_S = 3.0
#: Seconds between two checks for missing hosts, which cost a step for each host.
_PROGRESS_S = 0.2
#: Connections that have not joined; of more, the oldest is dropped: each may hold a line.
_MOST_IDLE = 1024
#: Open files that the process needs in addition to the callers.
_SPARE_FILES = 64


def recognise(address: str, port: int, timeout_s: float = 1.0) -> str | None:
    """Return what listens on a port, by its bytes: ``SSH (SSH-2.0-OpenSSH_9.2)``, ``a web server (HTTP/1.1 400 …)`` ….

    :param timeout_s: for all of it
    :return: None where no connection can be made
    """
    end = time.monotonic() + timeout_s
    silent = False
    seen = None
    # some programs send first, others only answer, each in its own protocol
    for hello, share in ((b"", 0.3), (STORE_HELLO, 0.4), (WEB_HELLO, 0.6), (make_line(ask="who"), 1.0)):
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


class ServedElsewhere(Exception):  # noqa: N818 - no error: another process serves this roll, so this one calls it
    """Another process serves."""


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


class MembershipServer:
    """Serves all hosts in one thread, and sends all of them the same result."""

    def __init__(self, rendezvous: Rendezvous) -> None:
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
        """Listen, wait, answer.

        :raises ServedElsewhere: another process serves
        :raises MembershipError: this host cannot listen
        """
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
                raise ServedElsewhere from None
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
                raise ServedElsewhere
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
            set_user_timeout(connection, LOST_S)

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
            part = peer.socket.recv(MOST_LINE_BYTES)
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
            if len(peer.received) > MOST_LINE_BYTES or not ROLL_MARK.startswith(mark):
                return self._drop(peer)
            return False
        message = read_line(bytes(line))
        if message is None:
            return self._drop(peer)
        known = has_tag(bytes(line), self.rendezvous.key, CALL)
        peer.answered = True
        peer.received.clear()
        return self._hear(peer, message, known)

    def _hear(self, peer: _Peer, message: Mapping[str, Any], known: bool) -> bool:
        """Answer the line of a caller.

        :param known: it has the tag of who knows the key
        """
        rendezvous = self.rendezvous
        if message.get("v") != PROTOCOL:
            version = text_of(message.get("version"), 40) or "unknown"
            self._note("other-version", peer.address, f"{text_of(message.get('host'))} runs distcheck {version}")
            return self._turn_away(peer, "other-version")
        if not known:
            if message.get("ask") != "who":
                self._note("other-run", peer.address, text_of(message.get("host")))
            return self._turn_away(peer, "other-run")
        peer.instance = text_of(message.get("instance"), 64)
        if message.get("ask") == "who":
            self._answer_to(peer, rendezvous.answer(of=rendezvous.host_count, host=rendezvous.own.host))
            return False
        peer.call = host_call(message, peer.address)
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
        self._send(peer, make_line(refused=why, host=self.rendezvous.own.host))
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
                if now - peer.since > SILENCE_S:
                    self._drop(peer)
            elif not peer.pending:
                self._answer_to(peer, line)

    def _answer_to(self, peer: _Peer, line: bytes) -> None:
        """Send a line with the tag for the call of this peer."""
        self._send(peer, with_tag(line, self.rendezvous.key, peer.instance))

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
            share = min(MOST_ANSWER_BYTES, _MOST_ANSWERS_BYTES // len(callers))
            line = write_answer(self.rendezvous, answer, share)
            for peer in callers:
                self._answer_to(peer, line)
            end = time.monotonic() + GRACE_S
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


class _MasterFinder:
    """Checks in parallel to the server whether the address leads to another server of the same check.

    Two hosts that both take themselves for the first one would each wait for the other: the one that the address does
    not lead to finds the other and calls it.
    """

    def __init__(self, rendezvous: Rendezvous) -> None:
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
                message = _ask_who(address, self.rendezvous, CONNECT_S)
                if message is None:
                    continue
                if message.get("instance") == self.rendezvous.instance:
                    self.elsewhere = ""  # a detour leads back to this process
                    return
                self.other_master = True
                return
            self._stopped.wait(RETRY_MOST_S)


def _ask_who(address: str, rendezvous: Rendezvous, limit_s: float) -> dict[str, Any] | None:
    """Return the answer of the process that serves the same check there; None if there is none."""
    try:
        with socket.create_connection((address, rendezvous.port), timeout=limit_s) as connection:
            connection.sendall(rendezvous.call(ask="who"))
            line = connection.recv(MOST_LINE_BYTES).partition(b"\n")[0]
    except OSError:
        return None
    return read_line(line) if has_tag(line, rendezvous.key, rendezvous.instance) else None
