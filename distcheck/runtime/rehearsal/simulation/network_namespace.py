"""A network without other machines: loopback, and this host's interfaces with their addresses, that lead nowhere.

A script that binds to its host's address, or names ``eth0``, finds both. There is no route: what is sent to another
machine fails at once, from Python, compiled code and programs that the script starts. The host's name servers are here,
know the host's own name, and list what other names are requested.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from threading import Thread
from typing import NamedTuple

# <linux/sockios.h>, <linux/if.h>
_GET_FLAGS, _SET_FLAGS = 0x8913, 0x8914
_GET_ADDRESS, _SET_ADDRESS = 0x8915, 0x8916
_SET_MASK, _GET_INDEX = 0x891C, 0x8933
_UP = 1
_LOOPBACK = "lo"
#: <linux/rtnetlink.h>, <linux/netlink.h>, <linux/if_link.h>
_NEW_LINK, _ACKNOWLEDGED = 16, 2
_REQUEST_CREATE = 0x1 | 0x4 | 0x200 | 0x400
_NAME, _LINK_INFO, _LINK_KIND = 3, 18, 1
#: Kinds of interfaces that need no device; the first that the kernel has is taken.
_KINDS = ("dummy", "bridge")
_LISTENS = "0A"
#: Scope of an address of IPv6 that other machines reach, in /proc/net/if_inet6.
_GLOBAL = "00"


class Outside(NamedTuple):
    """The network of this host."""

    #: interfaces that are up, with their IPv4 address; without loopback
    interfaces: tuple[tuple[str, str], ...] = ()
    #: IPv6 addresses that other machines reach
    addresses: tuple[str, ...] = ()
    #: addresses of the name servers of this host
    name_servers: tuple[str, ...] = ()
    #: ports on which a process listens
    listening: tuple[int, ...] = ()


def read() -> Outside:
    """The network that this process is in; what can't be read is missing."""
    interfaces = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for _, name in socket.if_nameindex():
            with suppress(OSError):
                up = struct.unpack_from("H", _control(control, _GET_FLAGS, name), 16)[0] & _UP
                address = socket.inet_ntoa(_control(control, _GET_ADDRESS, name)[20:24])
                if up and name != _LOOPBACK:
                    interfaces.append((name, address))
    fields = [line.split() for line in _lines("/proc/net/if_inet6")]
    addresses = [socket.inet_ntop(socket.AF_INET6, bytes.fromhex(one[0])) for one in fields if one[3] == _GLOBAL]
    words = [line.split() for line in _lines("/etc/resolv.conf")]
    servers = [one[1].partition("%")[0] for one in words if len(one) > 1 and one[0] == "nameserver"]
    return Outside(tuple(interfaces), tuple(addresses), tuple(servers), tuple(sorted(listening_ports())))


def listening_ports() -> set[int]:
    """The TCP ports on which a process of this network namespace listens."""
    rows = [line.split() for name in ("tcp", "tcp6") for line in _lines(f"/proc/net/{name}")]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if len(row) > 3 and row[3] == _LISTENS}


def furnish(outside: Outside) -> None:
    """In a new network namespace: start loopback, and give it the interfaces and addresses of the host.

    :raises OSError: loopback can't be started
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        _start(control, _LOOPBACK)
        for number, (name, address) in enumerate(outside.interfaces):
            # without an interface of that name, at least the address is this machine's
            target = name if any(_made(name, kind) for kind in _KINDS) else f"{_LOOPBACK}:{number}"
            with suppress(OSError):
                _give(control, target, address)
                if target == name:
                    _start(control, name)
        for number, address in enumerate(outside.name_servers, len(outside.interfaces)):
            # one of loopback is there
            if ":" not in address and not address.startswith("127."):
                _give(control, f"{_LOOPBACK}:{number}", address)
    with suppress(OSError), socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as control:
        index = struct.unpack_from("i", _control(control, _GET_INDEX, _LOOPBACK), 16)[0]
        for address in (*outside.addresses, *(one for one in outside.name_servers if ":" in one)):
            with suppress(OSError):
                packed = socket.inet_pton(socket.AF_INET6, address)
                _ioctl(control, _SET_ADDRESS, struct.pack("16sIi", packed, 128, index))


class NameServer:
    """Answers as name servers do that reach no other: it knows this host, and nothing else. RFC 1035, 4.

    :param own: the addresses of this host
    """

    _PORT = 53
    _HEADER = struct.Struct(">6H")
    #: answers of a name server that repeats the question, with the code of the answer in the last bits
    _ANSWER, _FAILED, _NO_SUCH_NAME = 0x8180, 2, 3
    _ADDRESS, _INTERNET = 1, 1

    def __init__(self, own: Sequence[str]) -> None:
        self._own = own
        self._host = socket.gethostname().partition(".")[0].lower()
        #: names of other machines, in the order of their first request
        self.names: dict[str, None] = {}

    def start(self) -> None:
        """Serve in threads from now on."""
        for family in (socket.AF_INET, socket.AF_INET6):
            with suppress(OSError):
                server = socket.socket(family, socket.SOCK_DGRAM)
                if family == socket.AF_INET6:
                    server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                server.bind(("", self._PORT))
                Thread(target=self._serve, args=(server,), daemon=True).start()

    def _serve(self, server: socket.socket) -> None:
        while True:
            with suppress(OSError, struct.error, IndexError):
                query, peer = server.recvfrom(512)
                server.sendto(self.answer(query), peer)

    def answer(self, query: bytes) -> bytes:
        """The answer to a query of one question.

        :raises IndexError, struct.error: it is none
        """
        labels, at = [], self._HEADER.size
        while length := query[at]:
            labels.append(query[at + 1 : at + 1 + length].decode("ascii", "replace").lower())
            at += 1 + length
        kind = struct.unpack_from(">H", query, at + 1)[0]
        question = query[self._HEADER.size : at + 5]
        addresses: Sequence[str] = ()
        if labels and labels[-1] == "arpa":
            code = self._NO_SUCH_NAME
        elif labels and labels[0] == self._host:
            code, addresses = 0, self._own if kind == self._ADDRESS else ()
        else:
            code = self._FAILED
            name = ".".join(labels)
            # a domain of this host is added to a name that was not found
            if not any(name.startswith(f"{other}.") for other in self.names):
                self.names[name] = None
        head = self._HEADER.pack(int.from_bytes(query[:2], "big"), self._ANSWER | code, 1, len(addresses), 0, 0)
        # a pointer to the name in the question, its kind, seconds to keep it, bytes that follow
        row = struct.pack(">HHHIH", 0xC000 | self._HEADER.size, self._ADDRESS, self._INTERNET, 0, 4)
        return head + question + b"".join(row + socket.inet_aton(one) for one in addresses)


def unrouted() -> int:
    """How often a process of this namespace tried to reach another machine."""
    count = 0
    rows = [line.split() for line in _lines("/proc/self/net/snmp") if line.startswith("Ip:")]
    if len(rows) == 2:
        count += int(dict(zip(*rows, strict=True))["OutNoRoutes"])
    rows = [line.split() for line in _lines("/proc/self/net/snmp6")]
    return count + sum(int(row[1]) for row in rows if row[0] == "Ip6OutNoRoutes")


def _lines(path: str) -> Iterator[str]:
    with suppress(OSError), open(path, encoding="ascii") as file:
        yield from file


def _address(text: str) -> bytes:
    return struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(text))


def _give(control: socket.socket, name: str, address: str) -> None:
    _control(control, _SET_ADDRESS, name, _address(address))
    # no other address counts as reachable through it
    _control(control, _SET_MASK, name, _address("255.255.255.255"))


def _start(control: socket.socket, name: str) -> None:
    flags = struct.unpack_from("H", _control(control, _GET_FLAGS, name), 16)[0]
    _control(control, _SET_FLAGS, name, struct.pack("H", flags | _UP))


def _control(control: socket.socket, number: int, name: str, value: bytes = b"") -> bytes:
    """``struct ifreq``: the name in 16 bytes, then the value."""
    return _ioctl(control, number, struct.pack("16s24s", name.encode(), value))


def _ioctl(control: socket.socket, number: int, argument: bytes) -> bytes:
    import fcntl

    return fcntl.ioctl(control, number, argument)


def _made(name: str, kind: str) -> bool:
    """Make an interface; return whether the kernel did."""
    inner = _attribute(_LINK_KIND, kind.encode())
    body = struct.pack("BxHiII", socket.AF_UNSPEC, 0, 0, 0, 0)
    body += _attribute(_NAME, name.encode() + b"\0") + _attribute(_LINK_INFO, inner)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as link:
        link.send(struct.pack("IHHII", 16 + len(body), _NEW_LINK, _REQUEST_CREATE, 1, 0) + body)
        answer = link.recv(4096)
    message, error = struct.unpack_from("4xH10xi", answer)
    return bool(message == _ACKNOWLEDGED and error == 0)


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("HH", 4 + len(value), kind) + value + b"\0" * (-len(value) % 4)
