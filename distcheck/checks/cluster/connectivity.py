"""Whether the hosts reach each other's ports: the master's, and those that NCCL and gloo will get.

Both let the kernel choose their ports, on every host and in both directions. So each host opens a few ports spread over
the ephemeral range, and the others try them. One connection sends a larger block, since a path can pass small packets
and lose large ones. ``closed_ports.py`` judges the failures, and ``membership_check.py`` finds missing hosts.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import random
import selectors
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Collection, Sequence
from types import TracebackType
from typing import Any, NamedTuple

from distcheck.checks.host import ports as host_ports
from distcheck.checks.host.addresses import is_address, is_loopback
from distcheck.core.world import World

from .records import ConnectionAttempt, HostRecord, Reach
from .sockets import open_files, place_of_address

#: Ephemeral ports by default: Linux (ip-sysctl, ip_local_port_range), and the range of IANA
#: (RFC 6335), as macOS and Windows use it.
LINUX_RANGE = (32768, 60999)
OTHER_RANGE = (49152, 65535)
#: Test ports of each host: a blocked part wider than a sixth of the range is always found.
DOORS = 6
#: With more hosts than this, each tries some others only, and fewer of their ports.
MOST_COMPLETE = 32
DOORS_OF_MANY = 2
#: Seconds for all tries together: time for two repetitions of a lost first packet (1 s and 3 s, Linux).
LIMIT_S = 5.0
#: What goes through in one piece: more than ten segments of a jumbo frame, which is what TCP sends before it waits for
#: a confirmation (RFC 6928).
BLOCK_BYTES = 128 << 10
#: A refused connection is tried again once: the other host may be about to listen.
_AGAIN_S = 0.3
#: Seconds after which the server drops a client that sent nothing more.
_IDLE_S = 30.0
#: Trials for a free port in each part of the range.
_TRIALS = 64
_MOST_GUESTS = 8192
_HELLO = b"distcheck "
_TOKEN_LENGTH = 32
_BLOCK = b"+"
_NO_BLOCK = b"-"
_DONE = b"done\n"


class Doors(NamedTuple):
    """The listening ports of a host, as the others learn them."""

    host: str
    #: without netmask; "" if it has none that others could use
    address: str = ""
    ports: tuple[int, ...] = ()
    token: str = ""


def ephemeral_range(world: World) -> tuple[int, int]:
    """Return the ports that the kernel chooses from, both included."""
    if world.platform != "linux":
        return OTHER_RANGE
    low, high = host_ports.ephemeral_range(world)
    return (low, high) if low is not None and high is not None and 0 < low <= high < 65536 else LINUX_RANGE


def peers_of(index: int, count: int) -> tuple[int, ...]:
    """Return the hosts that a host tries: all others, or of many those 1, 2, 4, 8 … further (log2 of their number).

    Every host is tried by as many others as it tries itself.
    """
    if count <= MOST_COMPLETE:
        return tuple(number for number in range(count) if number != index)
    return tuple((index + (1 << power)) % count for power in range((count - 1).bit_length()))


def join_reach(parts: Sequence[Reach]) -> Reach:
    """The tries of each host, as one fact."""
    return Reach(
        tried=sum(part.tried for part in parts),
        hosts=len(parts),
        failed=tuple(connection for part in parts for connection in part.failed),
        complete=len(parts) <= MOST_COMPLETE and all(part.complete for part in parts),
        doors=max((part.doors for part in parts), default=0),
        low_port=min((part.low_port for part in parts if part.low_port), default=0),
        high_port=max((part.high_port for part in parts), default=0),
    )


def address_of(record: HostRecord) -> str:
    """Return the address on which NCCL would listen on a host with GPUs, else gloo; "" if others cannot use it."""
    nccl = [item for item in record.interfaces if item.nccl]
    gloo = [item for item in record.interfaces if item.gloo]
    ordered = [*nccl, *gloo] if record.gpus else [*gloo, *nccl]
    return next((item.addresses[0].partition("/")[0] for item in ordered if item.addresses), "")


def open_doors(record: HostRecord) -> Listener:
    """Return the test ports of this host, on the address and in the range of its libraries; enter it with ``with``."""
    world = World()
    low, high = ephemeral_range(world)
    return Listener(record.host, address_of(record), low=low, high=high, reserved=host_ports.reserved_ports(world))


class Listener:
    """Keeps a host's ports open in one thread: ``with open_doors(record) as doors: publish(doors.card)``.

    :param host: what the others call this host
    :param address: the one that NCCL or gloo would listen on, with or without netmask; "" opens nothing
    :param low: first port of the range
    :param high: last one
    :param reserved: ports in it that no library is given: no door is opened there
    """

    def __init__(
        self,
        host: str,
        address: str,
        *,
        low: int,
        high: int,
        reserved: Collection[int] = (),
    ) -> None:
        self.address = address.partition("/")[0]
        #: why no port could be opened
        self.error: str | None = None
        self._reserved = reserved
        self._token = os.urandom(_TOKEN_LENGTH // 2).hex()
        self._sockets: list[socket.socket] = []
        self._stop, self._stopped = socket.socketpair()
        self._thread: threading.Thread | None = None
        if self.address:
            self._open(low, high)
        else:
            self.error = "no address was given"
        ports = tuple(sorted(int(item.getsockname()[1]) for item in self._sockets))
        #: what the others need to know
        self.card = Doors(host, self.address if ports else "", ports, self._token)

    def __enter__(self) -> Listener:
        self._thread = threading.Thread(target=self._run, name="distcheck-doors", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all ports."""
        with contextlib.suppress(OSError):
            self._stop.send(b".")
        if self._thread is not None:
            self._thread.join(2.0)
        for item in (*self._sockets, self._stop, self._stopped):
            item.close()

    def _open(self, low: int, high: int) -> None:
        """Return one port in each of DOORS equal parts of the range: its first, its last, and any between them."""
        width = (high - low + 1) / DOORS
        for part in range(DOORS):
            first, last = low + int(part * width), max(low + int(part * width), low + int((part + 1) * width) - 1)
            try:
                self._sockets.append(self._open_in(first, last, at_end=part == DOORS - 1, at_start=part == 0))
            except OSError as error:
                self.error = error.strerror or str(error)
                if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                    return

    def _open_in(self, first: int, last: int, *, at_start: bool, at_end: bool) -> socket.socket:
        family, place = place_of_address(self.address)
        # other ports in each run, so that a blocked range in between is found in time
        start = first if at_start else last if at_end else random.randint(first, last)  # noqa: S311
        failure = OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        trials = 0
        for trial in range(last - first + 1):
            if trials >= _TRIALS:
                break
            port = first + (start - first + (-trial if at_end else trial)) % (last - first + 1)
            if port in self._reserved:
                continue
            trials += 1
            listener = socket.socket(family, socket.SOCK_STREAM)
            try:
                if sys.platform != "win32":  # there it would take a port that is in use
                    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind((place[0], port, *place[2:]))
                listener.listen(1024)
            except OSError as error:
                listener.close()
                failure = error
                if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                    break
                continue
            listener.setblocking(False)
            return listener
        raise failure

    # the thread

    def _run(self) -> None:
        guests: dict[int, _Guest] = {}
        with selectors.DefaultSelector() as selector:
            selector.register(self._stopped, selectors.EVENT_READ, "stop")
            for listener in self._sockets:
                selector.register(listener, selectors.EVENT_READ, "door")
            swept = time.monotonic()
            try:
                while True:
                    for item, _ in selector.select(1.0):
                        if item.data == "stop":
                            return
                        if item.data == "door":
                            self._let_in(item.fileobj, selector, guests)
                        elif item.data.read():
                            _see_off(item.data, selector, guests)
                    now = time.monotonic()
                    if now - swept > 1.0:
                        swept = now
                        for guest in [guest for guest in guests.values() if now - guest.seen > _IDLE_S]:
                            _see_off(guest, selector, guests)
            finally:
                for guest in guests.values():
                    guest.socket.close()

    def _let_in(self, listener: Any, selector: selectors.BaseSelector, guests: dict[int, _Guest]) -> None:
        for _ in range(64):
            try:
                connection, _address = listener.accept()
            except OSError:  # no further client, or no more files can be opened, and clients wait
                return
            if len(guests) >= _MOST_GUESTS:
                _see_off(min(guests.values(), key=lambda item: item.seen), selector, guests)
            connection.setblocking(False)
            guest = _Guest(connection, self._token)
            guests[connection.fileno()] = guest
            selector.register(connection, selectors.EVENT_READ, guest)


def _see_off(guest: _Guest, selector: selectors.BaseSelector, guests: dict[int, _Guest]) -> None:
    guests.pop(guest.socket.fileno(), None)
    selector.unregister(guest.socket)
    guest.socket.close()


class _Guest:
    """A client of a test port: sends the token, gets the answer, may send a block."""

    __slots__ = ("block", "received", "seen", "socket", "token")

    def __init__(self, connection: socket.socket, token: str) -> None:
        self.socket = connection
        self.token = token
        self.received = bytearray()
        #: bytes of the block that are still to arrive; None: not requested
        self.block: int | None = None
        self.seen = time.monotonic()

    def read(self) -> bool:
        """Read what arrived; return whether the connection is over."""
        try:
            part = self.socket.recv(BLOCK_BYTES)
            if not part:
                return True
            self.seen = time.monotonic()
            if self.block is None:
                self.received += part
                length = len(_HELLO) + _TOKEN_LENGTH + 1
                if not _HELLO.startswith(bytes(self.received[: len(_HELLO)])):
                    return True
                if len(self.received) < length:
                    return False
                if self.received[len(_HELLO) : length - 1] != self.token.encode():
                    return True
                self.socket.sendall(_answer_to(self.token))
                part = bytes(self.received[length:])
                wants = self.received[length - 1 : length] == _BLOCK
                self.received.clear()
                self.block = BLOCK_BYTES if wants else 0
            if self.block > 0:
                self.block -= len(part)
                if self.block <= 0:
                    self.socket.sendall(_DONE)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            return True
        return False


def _answer_to(token: str) -> bytes:
    """Return the answer that only the host with the token knows; an echo does not."""
    return hashlib.sha256(f"distcheck {token}".encode()).hexdigest()[:_TOKEN_LENGTH].encode() + b"\n"


# the tries


class _Try:
    """One connection in progress."""

    __slots__ = ("again", "block", "doors", "error", "left", "outcome", "port", "received", "socket", "state")

    def __init__(self, doors: Doors, port: int, block: bool) -> None:
        self.doors = doors
        self.port = port
        #: it also sends a block
        self.block = block
        #: ``connecting``, ``asking``, ``sending`` or ``over``
        self.state = "connecting"
        self.outcome = ""
        self.error: str | None = None
        self.received = bytearray()
        self.left = 0
        #: when a refused connection is tried again; infinity: it was
        self.again = 0.0
        self.socket: socket.socket | None = None

    def failed(self, source: str) -> ConnectionAttempt:
        return ConnectionAttempt(source, self.doors.host, self.doors.address, self.port, self.outcome, self.error)


def try_hosts(
    own: Doors,
    others: Sequence[Doors],
    *,
    hosts: int | None = None,
    limit_s: float = LIMIT_S,
    loopback: bool = False,
) -> Reach:
    """Try the ports of other hosts, all in parallel.

    :param others: those whom ``peers_of`` names
    :param hosts: how many take part; of many only some doors are tried, others by each, so that together all are
    :param limit_s: seconds for all of it
    :param loopback: try loopback addresses as well: only where the "hosts" are processes of one machine
    :return: what this one host tried; ``join_reach`` makes one fact of all
    """
    count = len(others) + 1 if hosts is None else hosts
    # no other host has this number, so each host begins at another port
    offset = int.from_bytes(hashlib.sha256(own.token.encode()).digest()[:4], "big")
    tries: list[_Try] = []
    for number, doors in enumerate(others):
        if not is_address(doors.address) or (is_loopback(doors.address) and not loopback):
            continue  # it has none, or one that leads back to this host
        first = offset + number
        ports = doors.ports
        if count > MOST_COMPLETE and len(ports) > DOORS_OF_MANY:
            step = len(ports) // DOORS_OF_MANY
            ports = tuple(ports[(first + turn * step) % len(ports)] for turn in range(DOORS_OF_MANY))
        # one connection sends the block; the others show which ports are open
        tries.extend(_Try(doors, port, place == first % len(ports)) for place, port in enumerate(ports))
    if tries:
        with open_files(len(tries) + 64), selectors.DefaultSelector() as selector:
            try:
                _run_tries(tries, selector, time.monotonic() + limit_s)
            finally:
                for item in tries:
                    if item.socket is not None:
                        item.socket.close()
    tried = [item.port for item in tries]
    return Reach(
        tried=len(tries),
        hosts=1,
        failed=tuple(item.failed(own.host) for item in tries if item.outcome),
        complete=count <= MOST_COMPLETE,
        doors=max(Counter(item.doors for item in tries).values(), default=0),
        low_port=min(tried, default=0),
        high_port=max(tried, default=0),
    )


def _run_tries(tries: Sequence[_Try], selector: selectors.BaseSelector, end: float) -> None:
    for item in tries:
        _start(item, selector)
    while True:
        now = time.monotonic()
        waiting = [item for item in tries if item.state == "waiting"]
        if now >= end or not (waiting or any(item.state != "over" for item in tries)):
            break
        for item in waiting:
            if now >= item.again:
                item.again = float("inf")
                _start(item, selector)
        pause = min([end, *(item.again for item in waiting)]) - now
        for key, _ in selector.select(max(0.001, min(0.2, pause))):
            _go_on(key.data, selector)
    for item in tries:
        if item.state == "over":
            continue
        if item.state == "waiting":
            pass  # it stays refused
        elif item.state == "connecting":
            item.outcome, item.error = "timeout", None
        elif item.state == "asking":
            item.outcome, item.error = "failed", "connected, and no answer came"
        else:
            item.outcome, item.error = "stalled", f"small packets pass, {BLOCK_BYTES} bytes in one piece do not"
        _end(item, selector)


def _start(item: _Try, selector: selectors.BaseSelector) -> None:
    family, place = place_of_address(item.doors.address)
    item.outcome, item.error = "", None
    try:
        item.socket = socket.socket(family, socket.SOCK_STREAM)
        item.socket.setblocking(False)
        item.state = "connecting"
        error = item.socket.connect_ex((place[0], item.port, *place[2:]))
    except OSError as failure:
        _give_up(item, failure.errno or 0, selector, failure.strerror or str(failure))
        return
    if error not in (0, errno.EINPROGRESS, errno.EWOULDBLOCK):
        _give_up(item, error, selector)
        return
    selector.register(item.socket, selectors.EVENT_WRITE, item)


def _go_on(item: _Try, selector: selectors.BaseSelector) -> None:
    connection = item.socket
    if connection is None or item.state == "over":
        return
    try:
        if item.state == "connecting":
            error = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if error:
                _give_up(item, error, selector)
                return
            connection.send(_HELLO + item.doors.token.encode() + (_BLOCK if item.block else _NO_BLOCK))
            item.state = "asking"
            selector.modify(connection, selectors.EVENT_READ, item)
        elif item.left > 0 and item.state == "sending":
            item.left -= connection.send(bytes(min(item.left, BLOCK_BYTES)))
            if item.left <= 0:
                selector.modify(connection, selectors.EVENT_READ, item)
        else:
            _read(item, connection, selector)
    except (BlockingIOError, InterruptedError):
        return
    except OSError as failure:
        item.outcome, item.error = "failed", f"connected, then: {failure.strerror or failure}"
        _end(item, selector)


def _read(item: _Try, connection: socket.socket, selector: selectors.BaseSelector) -> None:
    part = connection.recv(4096)
    item.received += part
    wanted = _answer_to(item.doors.token) if item.state == "asking" else _DONE
    if not part or not wanted.startswith(bytes(item.received[: len(wanted)])):
        item.outcome = "failed"
        item.error = "another program answers there" if part else "connected, and the connection was closed"
        _end(item, selector)
    elif len(item.received) >= len(wanted):
        item.received.clear()
        if item.state == "asking" and item.block:
            item.state, item.left = "sending", BLOCK_BYTES
            selector.modify(connection, selectors.EVENT_WRITE, item)
        else:
            _end(item, selector)


def _give_up(item: _Try, number: int, selector: selectors.BaseSelector, text: str | None = None) -> None:
    """Record why the connection failed, or that it is tried again."""
    words = text or os.strerror(number)
    if number == errno.ECONNREFUSED:
        item.outcome = "refused"
    elif number == errno.ETIMEDOUT:
        item.outcome = "timeout"
    elif number in _NO_ROUTE:
        item.outcome = "no-route"
    else:
        item.outcome = "failed"
    item.error = words
    again = item.outcome == "refused" and item.again == 0.0
    _end(item, selector)
    if again:
        item.state, item.again = "waiting", time.monotonic() + _AGAIN_S


#: No route, or the kernel must not use it (ip-rule(8): prohibit, unreachable, blackhole).
_NO_ROUTE = frozenset(
    {
        errno.ENETUNREACH,
        errno.EHOSTUNREACH,
        errno.EACCES,
        errno.EPERM,
        errno.EINVAL,
        errno.EAFNOSUPPORT,
        errno.EADDRNOTAVAIL,
    }
)


def _end(item: _Try, selector: selectors.BaseSelector) -> None:
    item.state = "over"
    if item.socket is not None:
        with contextlib.suppress(KeyError, ValueError):
            selector.unregister(item.socket)
        item.socket.close()
