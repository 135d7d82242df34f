"""A free port that stays free: held by a socket that is bound and does not listen, until a server uses it.

On Linux the kernel never picks a held port for another socket (neither for ``bind`` with 0 nor for ``connect``), and
refuses it to a socket without SO_REUSEADDR. A server that sets SO_REUSEADDR, as torch's TCPStore, torchrun
and Python's own servers do, can bind it as well (socket(7); tests hold it). So between choosing the port and
serving on it no other process gets it by chance: only one that binds this very number with SO_REUSEADDR. Other systems
refuse such a server, so there the port is let go of at once, and the usual race is left.
"""

from __future__ import annotations

import socket
import sys


class ReservedPort:
    """A port that is held until it is released; as a context manager, until the end of the block."""

    def __init__(self, number: int, holder: socket.socket | None) -> None:
        #: the port
        self.number = number
        self._holder = holder

    @property
    def held(self) -> bool:
        """Whether it is still reserved."""
        return self._holder is not None

    def release(self) -> int:
        """Let go of the port, and give its number: for a server that does not set SO_REUSEADDR."""
        if self._holder is not None:
            self._holder.close()
            self._holder = None
        return self.number

    def __enter__(self) -> ReservedPort:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


def reserve_port() -> ReservedPort:
    """A port of this host that no other process gets by chance, on all its addresses.

    :raises OSError: there is no free port
    """
    holder = _bound()
    port = ReservedPort(holder.getsockname()[1], holder)
    if not sys.platform.startswith("linux"):
        port.release()
    return port


def _bound() -> socket.socket:
    """A socket on a port of the kernel's choice, for IPv4 and IPv6 where both are there."""
    if socket.has_dualstack_ipv6():
        try:
            return _bind(socket.AF_INET6, "::")
        except OSError:
            pass  # IPv6 is built in and switched off
    return _bind(socket.AF_INET, "")


def _bind(family: int, address: str) -> socket.socket:
    holder = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family == socket.AF_INET6:
            holder.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        if sys.platform.startswith("linux"):
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((address, 0))
    except OSError:
        holder.close()
        raise
    return holder
