"""Read the addresses of this host's interfaces from the Linux kernel, with only the standard library.

The result is the same as that of netifaces, which is tried first. This module is for hosts without netifaces. It uses
rtnetlink(7), as getifaddrs does, because the older ioctls return no IPv6 addresses.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

#: Messages and attributes of Linux, include/uapi/linux/netlink.h, rtnetlink.h and if_addr.h.
_DONE, _ERROR, _NEW_ADDRESS, _GET_ADDRESS = 3, 2, 20, 22
_REQUEST_DUMP = 0x1 | 0x300
_ADDRESS, _LOCAL, _LABEL = 1, 2, 3
_HEADER = struct.Struct("=IHHII")
#: family, length of the prefix, flags, scope, index of the interface
_ABOUT_ADDRESS = struct.Struct("=BBBBI")
_ATTRIBUTE = struct.Struct("=HH")
#: The two highest bits of an attribute's type are marks.
_TYPE = 0x3FFF
#: A dump comes in pieces of at most so many bytes.
_LARGEST_PIECE = 1 << 16
#: Seconds for the kernel's answer, which takes less than a millisecond.
_LIMIT_S = 2.0

_FAMILIES = {int(socket.AF_INET): socket.AF_INET, int(socket.AF_INET6): socket.AF_INET6}


class InterfaceAddress(NamedTuple):
    """One address of an interface."""

    #: its label where it has one (``eth0:1``), else the interface's
    name: str
    #: ``ipv4`` or ``ipv6``
    family: str
    #: with its zone where it means nothing without
    address: str
    netmask: str


def read_addresses() -> tuple[InterfaceAddress, ...]:
    """All addresses of this network namespace, by interface in the kernel's order, IPv4 first; raises OSError."""
    names = dict(socket.if_nameindex())
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        kernel.settimeout(_LIMIT_S)
        kernel.bind((0, 0))
        about = _ABOUT_ADDRESS.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
        size = _HEADER.size + len(about)
        kernel.sendto(_HEADER.pack(size, _GET_ADDRESS, _REQUEST_DUMP, 1, 0) + about, (0, 0))
        found = [_address(body, names) for body in _messages(kernel)]
    known = [address for address in found if address is not None]
    # the labels of an interface's addresses are names of their own, behind those of all interfaces
    order = {name: place for place, name in enumerate(dict.fromkeys((*names.values(), *(one.name for one in known))))}
    return tuple(sorted(known, key=lambda one: (order[one.name], one.family)))


def _messages(kernel: socket.socket) -> Iterator[bytes]:
    """What stands in the messages about addresses, up to the end of the dump."""
    while True:
        piece = kernel.recv(_LARGEST_PIECE)
        start = 0
        while start + _HEADER.size <= len(piece):
            length, kind, _, _, _ = _HEADER.unpack_from(piece, start)
            body = piece[start + _HEADER.size : start + length]
            if kind == _DONE:
                return
            if kind == _ERROR:
                number = -struct.unpack_from("=i", body)[0]
                raise OSError(number, "the kernel reports no addresses")
            if kind == _NEW_ADDRESS:
                yield body
            if length < _HEADER.size:
                raise OSError(0, "the kernel's answer about addresses makes no sense")
            start += _aligned(length)


def _address(body: bytes, names: dict[int, str]) -> InterfaceAddress | None:
    """One address from its message; None for a family that torch can't use, and for an interface that just went."""
    number, prefix, _, _, index = _ABOUT_ADDRESS.unpack_from(body)
    family = _FAMILIES.get(number)
    if family is None or index not in names:
        return None
    parts = dict(_attributes(body[_ABOUT_ADDRESS.size :]))
    # of a point-to-point link the address is the other end's, and its own is separate
    raw = parts.get(_LOCAL, parts.get(_ADDRESS))
    if raw is None:
        return None
    text = socket.inet_ntop(family, raw)
    mask = socket.inet_ntop(family, ((1 << 8 * len(raw)) - (1 << 8 * len(raw) - prefix)).to_bytes(len(raw), "big"))
    label = parts.get(_LABEL, b"").rstrip(b"\0").decode("utf-8", "replace")
    if family == socket.AF_INET:
        return InterfaceAddress(label or names[index], "ipv4", text, mask)
    # an address of this link alone means nothing without the link (RFC 4007)
    zone = f"%{names[index]}" if raw[0] == 0xFE and raw[1] & 0xC0 == 0x80 else ""
    return InterfaceAddress(names[index], "ipv6", text + zone, f"{mask}/{prefix}")


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    start = 0
    while start + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, start)
        if length < _ATTRIBUTE.size:
            return
        yield kind & _TYPE, data[start + _ATTRIBUTE.size : start + length]
        start += _aligned(length)


def _aligned(length: int) -> int:
    return (length + 3) & ~3
