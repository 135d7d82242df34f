"""The membership check of hosts over plain TCP, before any rank starts: present, missing and duplicate hosts.

The rendezvous host serves and the others call it. All learn the same result within one time limit. It needs no torch,
and reads nothing from the network but bounded JSON. The hosts are compared later, and :mod:`.connectivity` checks
whether they reach each other's other ports.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from distcheck._version import __version__

from .membership_protocol import (
    CONNECT_S,
    GRACE_S,
    LOST_S,
    MOST_ANSWER_BYTES,
    MOST_PAYLOAD_BYTES,
    PROTOCOL,
    RETRY_FIRST_S,
    RETRY_MOST_S,
    SILENCE_S,
    HostCheckIn,
    MembershipAnswer,
    MembershipProblem,
    Progress,
    Rendezvous,
    count_of,
    digest,
    fields_of,
    has_tag,
    own_answer,
    read_answer,
    read_line,
    text_of,
)
from .membership_server import MembershipServer, ServedElsewhere
from .sockets import ROLL_MARK, describe_bytes, is_own_address, resolve, set_user_timeout

#: Seconds that a caller keeps trying if another program answers, or if this host has no route: the port may belong to a
#: job that is just ending.
_PATIENCE_S = 8.0


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
    rendezvous = Rendezvous(
        own, host_count, address, port, start, timeout_s, digest(key), os.urandom(8).hex(), progress
    )
    return _join(rendezvous)._replace(host=own.host, node_rank=node_rank)


def _join(rendezvous: Rendezvous) -> MembershipAnswer:
    rank = rendezvous.own.node_rank
    if rank == 0:
        with contextlib.suppress(ServedElsewhere):
            return MembershipServer(rendezvous).run()
    return _call(rendezvous)


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


def _call(rendezvous: Rendezvous) -> MembershipAnswer:
    """Call the server until it answers or the time is over."""
    resolver = _Resolver(rendezvous.address, rendezvous.port)
    problem = MembershipProblem("unresolvable", rendezvous.address, rendezvous.port, resolver.error)
    hopeless_since: float | None = None
    tried = False
    pause = RETRY_FIRST_S
    rendezvous.report(0, rendezvous.host_count, "")
    while (left := rendezvous.end - time.monotonic()) > 0:
        addresses = resolver.look(min(left, CONNECT_S))
        if not addresses:
            problem = MembershipProblem("unresolvable", rendezvous.address, rendezvous.port, resolver.error)
        own = [address for address in addresses if is_own_address(address)]
        if own and rendezvous.own.node_rank is None:
            with contextlib.suppress(ServedElsewhere):
                return MembershipServer(rendezvous).run()
        problems = []
        for number, address in enumerate(addresses):
            left = rendezvous.end - time.monotonic()
            if left <= 0:
                break
            limit_s = min(CONNECT_S, max(0.5, left / (len(addresses) - number)), left)
            found = _talk(rendezvous, address, limit_s)
            if isinstance(found, MembershipAnswer):
                return found
            problems.append(found._replace(own=address in own))
        if problems:
            last = min(problems, key=lambda item: _TELLING.index(item.kind))
            # a try that the deadline cut short shows less than the one before it
            cut_short = last.kind in ("silent", "timeout") and time.monotonic() >= rendezvous.end - RETRY_FIRST_S
            problem = problem if tried and cut_short else last
            tried = True
        now = time.monotonic()
        hopeless_since = (hopeless_since or now) if _is_hopeless(problem) else None
        if hopeless_since is not None and now - hopeless_since >= _PATIENCE_S:
            break
        # hosts call at different moments
        jitter = random.uniform(0.5, 1.0)  # noqa: S311
        time.sleep(max(0.0, min(pause * jitter, rendezvous.end - time.monotonic())))
        pause = min(RETRY_MOST_S, pause * 1.5)
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


def _talk(rendezvous: Rendezvous, address: str, limit_s: float) -> MembershipAnswer | MembershipProblem:
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
        set_user_timeout(connection, LOST_S)
        try:
            connection.sendall(rendezvous.call(**fields_of(rendezvous.own)))
        except OSError as error:
            return problem("closed", error.strerror or str(error))
        return _listen_to(rendezvous, connection, problem)


def _listen_to(
    rendezvous: Rendezvous, connection: socket.socket, problem: Callable[[str, str], MembershipProblem]
) -> MembershipAnswer | MembershipProblem:
    received = bytearray()
    status: dict[str, Any] = {}
    heard = time.monotonic()
    while True:
        now = time.monotonic()
        patience = heard + (LOST_S if status else SILENCE_S)
        end = rendezvous.end + (GRACE_S if status else 0.0)
        if now >= end:
            return own_answer(rendezvous, status) if status else problem("silent", "")
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
        if len(received) > 2 * MOST_ANSWER_BYTES:
            return problem("foreign", "a program that does not end its line")
        *lines, rest = bytes(received).split(b"\n")
        received = bytearray(rest)
        for line in lines:
            message = read_line(line)
            if message is None:
                return problem("foreign", describe_bytes(line))
            if message.get("v") != PROTOCOL or message.get("refused") == "other-version":
                return problem(
                    "other-version", f"distcheck {text_of(message.get('version'), 40)} there, {__version__} here"
                )
            if message.get("refused") or not has_tag(line, rendezvous.key, rendezvous.instance):
                return problem("other-run", text_of(message.get("host")))
            heard = time.monotonic()
            if message.get("done"):
                return read_answer(rendezvous, message)
            if any(message.get(name) != status.get(name) for name in ("present", "missing")):
                rendezvous.report(
                    count_of(message.get("present")) or 0,
                    count_of(message.get("of")) or 0,
                    text_of(message.get("missing")),
                )
            status = message
