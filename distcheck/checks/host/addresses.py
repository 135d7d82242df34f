"""IP addresses as texts: with or without a netmask and a zone, loopback, and of one subnet."""

from __future__ import annotations

import socket


def bare(address: str) -> str:
    """An address without its netmask and its zone: ``bare("fe80::1%eth0/64") == "fe80::1"``."""
    return address.partition("/")[0].partition("%")[0]


def is_address(text: str) -> bool:
    """Whether a text is an IPv4 or IPv6 address, with or without a zone, and no name."""
    return _packed(bare(text)) is not None


def is_loopback(address: str) -> bool:
    """127.0.0.0/8 or ::1, with or without a netmask."""
    return bare(address).startswith("127.") or bare(address) == "::1"


def same_subnet(own: str, other: str) -> bool:
    """Whether an address lies in the subnet of one with a netmask (``10.0.0.5/255.255.255.0`` or ``fd00::2/64``).

    False where one of them can't be read, has no netmask, or is of the other family.
    """
    mask = _mask_bits(own.partition("/")[2])
    left, right = _packed(bare(own)), _packed(bare(other))
    if mask is None or left is None or right is None or len(left) != len(right):
        return False
    shift = 8 * len(left) - mask
    return shift >= 0 and int.from_bytes(left, "big") >> shift == int.from_bytes(right, "big") >> shift


def _mask_bits(mask: str) -> int | None:
    """The length of a netmask: ``24`` and ``255.255.255.0`` give 24; None for what is none."""
    if mask.isascii() and mask.isdigit():
        return int(mask)
    packed = _packed(mask)
    return None if packed is None else bin(int.from_bytes(packed, "big")).count("1")


def _packed(address: str) -> bytes | None:
    try:
        return socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)
    except (OSError, ValueError):
        return None
