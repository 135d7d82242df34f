"""Refuses what Python sends to other machines, and logs it: a rehearsal must not upload, and needs only this machine.

An audit hook sees all sockets of Python, of libraries too, and names the line. Compiled code that opens sockets itself
and programs that the script starts are refused by the network namespace, where there is one.
"""

from __future__ import annotations

import errno
import functools
import ipaddress
import os
import socket
import sys
from typing import Any

from distcheck.runtime.coordination.patching import harmless, wrap
from distcheck.runtime.rehearsal.simulation import network_namespace
from distcheck.runtime.rehearsal.simulation.event_log import EventLog
from distcheck.runtime.rehearsal.simulation.overlay import settings_of
from distcheck.runtime.rehearsal.simulation.plan import RehearsalPlan

#: Audit events of Python's socket module → position of the address, or of the host name.
_SENDING = {"socket.connect": 1, "socket.sendto": 1, "socket.sendmsg": 1}
_LOOKING_UP = {"socket.getaddrinfo": 0, "socket.gethostbyname": 0}
_INTERNET = (socket.AF_INET, socket.AF_INET6)
_WHY = "distcheck rehearse keeps the script on this machine (--network opens connections)"


def install(event_log: EventLog, plan: RehearsalPlan) -> None:
    """Rows ``network.refused`` and ``network.outside``; nothing is refused if the user has opened the network."""
    if plan.network:
        return
    outside = frozenset(settings_of(plan.private).listening)

    def known(name: str) -> None:
        if name and not _is_known(name):
            _note(event_log, "network.refused", name)
            raise socket.gaierror(socket.EAI_AGAIN, f"Temporary failure in name resolution: {_WHY}")

    def refuse(event: str, arguments: Any) -> None:
        if not event.startswith("socket."):
            return
        if event in _SENDING:
            address = arguments[_SENDING[event]]
            if not isinstance(address, tuple) or len(address) < 2:
                return
            peer = f"{address[0]}:{address[1]}"
            if not _is_here(str(address[0])):
                _note(event_log, "network.refused", peer)
                raise OSError(errno.ENETUNREACH, f"{os.strerror(errno.ENETUNREACH)}: {_WHY}")
            if address[1] in outside and address[1] not in network_namespace.listening_ports():
                _note(event_log, "network.outside", peer)
        elif event in _LOOKING_UP:
            known(_text(arguments[_LOOKING_UP[event]]))

    def resolving(real: Any, this: socket.socket, *arguments: Any) -> Any:
        # Python resolves a name before its audit event
        if this.family in _INTERNET and arguments and isinstance(arguments[-1], tuple) and arguments[-1]:
            known(_text(arguments[-1][0]))
        return real(this, *arguments)

    sys.addaudithook(refuse)
    wrap(socket.socket, "connect", _connect)
    for name in ("connect", "connect_ex", "sendto"):
        wrap(socket.socket, name, resolving)


def _connect(real: Any, this: socket.socket, address: Any) -> None:
    """A datagram socket that connects sends nothing: scripts read their own address from it."""
    datagrams = this.type == socket.SOCK_DGRAM and this.family in _INTERNET
    if datagrams and isinstance(address, tuple) and not _is_here(str(address[0])):
        found = network_namespace.read()
        own = found.addresses if this.family == socket.AF_INET6 else [address for _, address in found.interfaces]
        this.bind((own[0] if own else "", 0))
    else:
        real(this, address)


def _note(event_log: EventLog, kind: str, peer: str) -> None:
    with harmless(event_log, kind):
        event_log.note(kind, peer=peer)


def _text(name: Any) -> str:
    return name.decode("ascii", "replace") if isinstance(name, (bytes, bytearray)) else str(name or "")


@functools.lru_cache(1024)
def _is_here(host: str) -> bool:
    """Return whether an address, or a name, belongs to this machine."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return _is_known(host)  # its address is checked when it is known
    if address.is_loopback or address.is_unspecified:
        return True
    try:
        with socket.socket(socket.AF_INET6 if address.version == 6 else socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True


@functools.lru_cache(1024)
def _is_known(name: str) -> bool:
    """Return whether a name needs no server: an address, this machine's own name, a line of the hosts file."""
    try:
        ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return (
            name.lower() in ("localhost", "<broadcast>", socket.gethostname().lower()) or name in _of_the_hosts_file()
        )
    return True


@functools.lru_cache(1)
def _of_the_hosts_file() -> frozenset[str]:
    try:
        with open("/etc/hosts", encoding="utf-8", errors="replace") as file:
            lines = [line.partition("#")[0].split() for line in file]
    except OSError:
        return frozenset()
    return frozenset(name for words in lines for name in words[1:])
