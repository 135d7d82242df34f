"""Sockets of our own, for what is needed before any library opens its own: who is there, and what answers.

Only what ``roll_call.py`` and ``reach.py`` share. Readers reach the network through ``World`` and not from here.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import socket
import sys
from collections.abc import Iterator
from typing import Any

from distcheck.checks.host.addresses import is_loopback
from distcheck.checks.host.ports import STORE_NONCE

#: What every line of a membership check begins with.
ROLL_MARK = b'{"distcheck":"roll"'


def describe_bytes(sent: bytes) -> str:
    """Return what a server is, by the first bytes that it sent."""
    if sent.startswith(ROLL_MARK):
        return "a membership check of distcheck"
    if sent.startswith(STORE_NONCE):
        return "a store of torch"
    line = re.split("[\r\n]", sent[:80].decode("latin-1"), maxsplit=1)[0].strip()
    text = "".join(letter if letter.isprintable() else "." for letter in line)
    for mark, what in _BANNERS:
        if sent.startswith(mark):
            return f"{what} ({text})"
    if sent[:1] in (b"\x15", b"\x16") and sent[1:2] == b"\x03":
        return "a TLS server"
    if sent.startswith(b"\x00\x00") and sent[3:4] == b"\x04":  # a SETTINGS frame of HTTP/2 (RFC 9113), as gRPC sends
        return "an HTTP/2 or gRPC server"
    return f"a program that answers {text!r}"


#: First bytes of servers that are found on ports around the one of torch.
_BANNERS = (
    (b"HTTP/", "a web server or proxy"),
    (b"<!DOCTYPE", "a web server"),
    (b"<html", "a web server"),
    (b"SSH-", "SSH"),
    (b"-ERR", "Redis"),
    (b"-NOAUTH", "Redis"),
    (b"-DENIED", "Redis"),
    (b"220 ", "a mail or FTP server"),
    (b"RFB ", "VNC"),
)


def resolve(name: str, port: int) -> tuple[str, ...]:
    """The addresses of a name in the resolver's order, each once; raises OSError."""
    found = socket.getaddrinfo(name.strip("[]"), port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(_with_zone(str(item[4][0]), item[4]) for item in found))[:8]


def _with_zone(address: str, place: tuple[Any, ...]) -> str:
    """A link-local address needs its interface, which getaddrinfo gives as a number."""
    if len(place) == 4 and place[3] and "%" not in address:
        with contextlib.suppress(OSError):
            return f"{address}%{socket.if_indextoname(place[3])}"
    return address


def is_own_address(address: str) -> bool:
    """Whether an address belongs to this host: the kernel would send from it what goes to it. No packet is sent."""
    if is_loopback(address):
        return True
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))
            return str(probe.getsockname()[0]).partition("%")[0] == address.partition("%")[0]
    except OSError:
        return False


def place_of_address(address: str) -> tuple[socket.AddressFamily, tuple[Any, ...]]:
    """Family of an address, and what bind and connect take, with port 0; the interface of a link-local one with it."""
    if ":" not in address:
        return socket.AF_INET, (address, 0)
    bare, _, zone = address.partition("%")
    number = 0
    if zone:
        with contextlib.suppress(OSError):
            number = int(zone) if zone.isdecimal() else socket.if_nametoindex(zone)
    return socket.AF_INET6, (bare, 0, 0, number)


def listen(address: str, port: int, backlog: int = 128) -> socket.socket:
    """A non-blocking socket that listens for all hosts, or on loopback alone where the address is; raises OSError."""
    bare = address.strip("[]")
    if bare.startswith("127.") or bare in ("localhost", "::1"):
        places = [(socket.AF_INET6, "::1")] if bare == "::1" else [(socket.AF_INET, "127.0.0.1")]
    else:
        places = [(socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0")]
    failure = OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
    for family, place in places:
        try:
            listener = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:  # a kernel without IPv6
            failure = error
            continue
        try:
            if sys.platform != "win32":  # there it would take away a port that is in use
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6 and place == "::":
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            listener.bind((place, port))
            listener.listen(max(128, min(backlog, 65535)))
            listener.setblocking(False)
        except OSError as error:
            listener.close()
            failure = error
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                break
            continue
        return listener
    raise failure


def set_user_timeout(connection: socket.socket, seconds: float) -> None:
    """Let the kernel give a connection up whose other end does not confirm for so long (Linux, tcp(7))."""
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    if option is not None:
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, option, int(seconds * 1000))
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


@contextlib.contextmanager
def open_files(needed: int) -> Iterator[None]:
    """Raise the soft limit of open files for as long as there are callers, as far as the hard one allows."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = soft == resource.RLIM_INFINITY or soft >= needed
    if not enough:
        wanted = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    try:
        yield
    finally:
        if not enough:
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def first_bytes(address: str, port: int, hello: bytes, limit_s: float) -> bytes | None:
    """Return the first bytes of a server, b"" if it closes, None if it sends nothing in time; raises OSError."""
    with socket.create_connection((address, port), timeout=limit_s) as connection:
        try:
            if hello:
                connection.sendall(hello)
            return connection.recv(256)
        except TimeoutError:
            return None
        except ConnectionError:
            return b""
