"""Which network interfaces NCCL and gloo would take, worked out from the facts alone. No socket is opened.

The rules of choice are those of NCCL 2.30 (``findInterfaces``, ``ncclFindInterfaces``, ``parseStringList``) and of gloo
as torch 2.13 calls it. Whether the choice is a good one is judged in ``interfaces.py``; which RDMA devices NCCL takes,
in ``fabric.py``, with the same list syntax.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from distcheck.core.model import Unavailable

from .addresses import bare, same_subnet

if TYPE_CHECKING:
    from distcheck.launch.model import Launch

    from .gpus import Gpus
    from .interfaces import Interface, Interfaces

#: Entries of NCCL_SOCKET_IFNAME that are read, and interfaces that are taken (``MAX_IFS``, NCCL 2.30).
MOST_INTERFACES = 16
#: Entries of NCCL_IB_HCA that are read (``MAX_IB_DEVS``, NCCL 2.30).
MOST_DEVICES = 32

#: NCCL's automatic choice, in its order: the first of these lists that matches anything decides.
_AUTOMATIC = (("ib", "ib"), ("any", "^docker,lo,virbr"), ("docker", "docker"), ("lo", "lo"), ("virbr", "virbr"))


class NameFilter(NamedTuple):
    """A list in the syntax of NCCL_SOCKET_IFNAME and NCCL_IB_HCA: ``[^][=]name[:port],…``, never trimmed."""

    #: names as they were written, blanks included, each with its port (None: any port)
    entries: tuple[tuple[str, int | None], ...]
    #: ``^``: all but these
    exclude: bool = False
    #: ``=``: names must be equal; otherwise an entry matches every name that begins with it
    exact: bool = False

    def names(self, name: str, port: int | None = None) -> bool:
        """Whether an entry matches, before ``^`` turns the answer round. An empty list matches everything."""
        if not self.entries:
            return True
        return any(
            (name == entry if self.exact else name.startswith(entry))
            and (port is None or wanted is None or port == wanted)
            for entry, wanted in self.entries
        )

    def takes(self, name: str, port: int | None = None) -> bool:
        """Whether NCCL may use what has this name."""
        return self.names(name, port) is not self.exclude


class Chosen(NamedTuple):
    """An interface, and the address of it that is taken."""

    name: str
    #: without netmask; a zone (``fe80::1%eth0``) stays
    address: str

    @property
    def link_local(self) -> bool:
        """An IPv6 address that is valid on one link only."""
        return ":" in self.address and self.address.lower().startswith(("fe8", "fe9", "fea", "feb"))


class InterfaceChoice(NamedTuple):
    """What NCCL takes, in its order: the first carries the bootstrap, all of them NCCL's socket transport."""

    interfaces: tuple[Chosen, ...]
    #: what decided: ``named`` (NCCL_SOCKET_IFNAME), ``ib``, ``comm-id``, ``any``, ``docker``, ``lo``, ``virbr`` …
    by: str

    @property
    def first(self) -> Chosen | None:
        """The interface of the bootstrap; None where NCCL finds none and fails."""
        return self.interfaces[0] if self.interfaces else None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all interfaces that are taken."""
        return tuple(item.name for item in self.interfaces)


class GlooChoice(NamedTuple):
    """What gloo binds to."""

    interfaces: tuple[Chosen, ...]
    #: names of GLOO_SOCKET_IFNAME, as they were written, for which no address is found: gloo fails
    missing: tuple[str, ...] = ()


def parse_filter(text: str, most: int = MOST_INTERFACES) -> NameFilter:
    """Read NCCL's list syntax as NCCL does: marks count for the whole list, in the order ``^=``.

    Empty names are skipped.

    :param most: entries after this number are not read
    """
    exclude = text.startswith("^")
    text = text[exclude:]
    exact = text.startswith("=")
    text = text[exact:]
    if text[:1] in ("^", "="):  # NCCL's list parser drops one more mark in silence
        text = text[1:]
    entries: list[tuple[str, int | None]] = []
    for part in text.split(","):
        name, colon, port = part.partition(":")
        if name and len(entries) < most:
            entries.append((name, _leading_number(port) if colon else None))
    return NameFilter(tuple(entries), exclude, exact)


def choose_nccl_interfaces(
    interfaces: Interfaces, *, ifname: str | None, family: str | None = None, comm_id: str | None = None
) -> InterfaceChoice:
    """Which interfaces NCCL takes on this host, and why.

    :param ifname: NCCL_SOCKET_IFNAME; a text of fewer than two characters counts as unset, as in NCCL
    :param family: NCCL_SOCKET_FAMILY; other texts than ``AF_INET`` and ``AF_INET6`` are ignored
    :param comm_id: NCCL_COMM_ID; only an address is read, since a name would have to be resolved
    """
    candidates = _running(interfaces, family)
    if ifname is not None and len(ifname) > 1:
        found = _matching(candidates, parse_filter(ifname))
        return InterfaceChoice(found, "named" if found else "none")
    for by, text in _AUTOMATIC:
        found = _matching(candidates, parse_filter(text))
        if found:
            return InterfaceChoice(found, by)
        if by == "ib" and (near := _in_subnet_of(interfaces, comm_id)) is not None:
            return InterfaceChoice((near,), "comm-id")
    return InterfaceChoice((), "none")


def gloo_interfaces(interfaces: Interfaces, *, ifname: str | None, host_addresses: tuple[str, ...] = ()) -> GlooChoice:
    """Which addresses gloo binds to on this host.

    :param ifname: GLOO_SOCKET_IFNAME: exact names joined by commas, blanks belong to a name; empty counts as unset
    :param host_addresses: what gethostname() resolves to
    """
    if ifname:
        names = [name for name in ifname.split(",") if name]
        taken = [(name, _first_address(interfaces.named(name))) for name in names]
        return GlooChoice(
            tuple(Chosen(name, address) for name, address in taken if address is not None),
            tuple(name for name, address in taken if address is None),
        )
    for wanted in host_addresses:
        for item in interfaces.interfaces:
            for entry in item.addresses:
                if bare(entry) == wanted.split("%")[0]:
                    return GlooChoice((Chosen(item.name, entry.partition("/")[0]),))
    # the host name leads to none of this host's addresses
    loopback = [
        Chosen(item.name, address)
        for item in interfaces.interfaces
        if item.loopback and (address := _first_address(item))
    ]
    return GlooChoice(tuple(loopback[:1]))


def uses_nccl(launch: Launch, gpus: Gpus | Unavailable) -> bool:
    """Whether the launch talks over NCCL: as it was stated, else where GPUs are visible."""
    if launch.backend is not None:
        return "nccl" in launch.backend
    return not isinstance(gpus, Unavailable) and bool(gpus.gpus)


def _running(interfaces: Interfaces, family: str | None) -> list[Chosen]:
    """Return all addresses that NCCL reads, in getifaddrs' order: all of IPv4 before all of IPv6 (glibc and musl)."""
    found = []
    for wanted in ("AF_INET", "AF_INET6"):
        if family in ("AF_INET", "AF_INET6") and family != wanted:
            continue
        for item in interfaces.interfaces:
            if item.running is False:
                continue
            for entry in item.addresses:
                if (":" in bare(entry)) is (wanted == "AF_INET6") and bare(entry) != "::1":
                    found.append(Chosen(item.name, entry.partition("/")[0]))
    return found


def _matching(candidates: list[Chosen], wanted: NameFilter) -> tuple[Chosen, ...]:
    first: dict[str, Chosen] = {}
    for candidate in candidates:
        if wanted.takes(candidate.name):
            first.setdefault(candidate.name, candidate)
    return tuple(first.values())[:MOST_INTERFACES]


def _in_subnet_of(interfaces: Interfaces, comm_id: str | None) -> Chosen | None:
    """Return the interface in whose subnet the address of NCCL_COMM_ID is; NCCL checks neither name nor state here."""
    if comm_id is None or len(comm_id) < 2:
        return None
    address = comm_id[1:].partition("]")[0] if comm_id.startswith("[") else comm_id.partition(":")[0]
    for item in interfaces.interfaces:
        for entry in item.addresses:
            if same_subnet(entry, address):
                return Chosen(item.name, entry.partition("/")[0])
    return None


def _first_address(item: Interface | None) -> str | None:
    return None if item is None or not item.addresses else item.addresses[0].partition("/")[0]


def _leading_number(text: str) -> int:
    """What C's atoi makes of a text."""
    match = re.match(r"\s*[+-]?\d+", text)
    return int(match[0]) if match else 0
