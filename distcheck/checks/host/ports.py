"""The port of the rendezvous: free or taken, by which process, and whether it is a safe choice.

Only who will have to listen on the port tries it. Whether the master on another host answers is the matter of
``reach.py``.
"""

from __future__ import annotations

import errno
import socket
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from distcheck import rules
from distcheck.core.model import Finding, Fix, NotApplicable, Severity, Unavailable, Where, expand_ranges
from distcheck.core.redaction import mask, mask_arguments
from distcheck.core.registry import fact, probe
from distcheck.core.world import World
from distcheck.launch.model import DEFAULT_PORT, HIGHEST_PORT, Launch

from .hostnames import NO_LAUNCH, MasterName, is_own
from .interfaces import Interfaces
from .processes import read_start, read_users, shown_command

#: Ports below this one belong to root by default (ip(7), ip_unprivileged_port_start).
PRIVILEGED_BELOW = 1024
#: States of a socket in /proc/net/tcp (Linux, include/net/tcp_states.h).
_LISTENING = "0A"
#: Sockets that no process has any more, TIME_WAIT among them, have no inode.
_NO_INODE = "0"
#: Seconds to read the open files of all processes: there may be tens of thousands.
_SCAN_LIMIT_S = 1.5
#: Seconds for a listener's answer; one on this host that speaks at all does it in a millisecond.
_ANSWER_LIMIT_S = 0.3
#: Where the kernel's own ports begin unless an administrator has moved them (Linux, ip_local_port_range).
_EPHEMERAL_FROM = 32768
#: Ports tried for the fix.
_MOST_TRIALS = 64
_LONGEST_COMMAND = 120
_UNSPECIFIED = ("0.0.0.0", "::")
#: The first bytes of a client of torch's store, and the number that a store sends back (recorded with torch 2.13:
#: validate, its magic number, ping, a number of the client's choice).
STORE_NONCE = b"dist"
STORE_HELLO = b"\x00\xce\xf7\x85\x3c\x0d" + STORE_NONCE
WEB_HELLO = b"HEAD / HTTP/1.0\r\n\r\n"
#: Programs that adopt the children of dead processes and start no job of their own.
_ADOPTERS = frozenset({"systemd", "init", "tini", "dumb-init", "docker-init", "catatonit", "s6-svscan", "runit"})


class PortOwner(NamedTuple):
    """Who holds a port."""

    #: None: a process that this user may not inspect
    pid: int | None
    user: str | None = None
    command: str | None = None
    #: seconds since 1970; None: unknown from /proc
    started_at: float | None = None
    #: it is this process or one of its own ancestors (the job's agent)
    ancestor: bool = False
    own: bool = False
    #: a worker of torchrun without an agent: provably orphaned, if it is the caller's own
    orphan: bool = False
    #: ``listening``, ``connected`` (its own end of a connection) or ``closing`` (no process owns it any more)
    holds: str = "listening"


class MasterPort(NamedTuple):
    """The master port, tried as torch will try it. Unavailable where nothing names a port."""

    port: int
    #: ``free``, ``taken``, ``taken-on-ipv6`` (torch will listen on IPv4 alone), ``privileged``, ``not-tried`` (another
    #: host listens), ``not-known`` (whether this host listens), or ``picked`` (a free one, as the job starts)
    state: str
    owner: PortOwner | None = None
    #: the listener's greeting, escaped; None: it sends none
    greeting: str | None = None
    #: a port that was free just now, for the fix
    free_port: int | None = None
    ephemeral_low: int | None = None
    ephemeral_high: int | None = None
    unprivileged_from: int = PRIVILEGED_BELOW
    #: the kernel never gives it away on its own (ip_local_reserved_ports)
    reserved: bool = False
    #: what answers there: ``torch-store``, ``web-server``, ``other``, ``silent`` or ``closes``; None: not tried
    listener: str | None = None


class _Socket(NamedTuple):
    """One line of /proc/net/tcp or tcp6."""

    state: str
    user_id: int
    inode: str
    address: str


@fact(limit_s=4, of_launch=True)
def read_master_port(
    world: World, launch: Launch, master: MasterName | Unavailable, interfaces: Interfaces | Unavailable
) -> MasterPort:
    """Bind it as torch would, and find its owner in /proc."""
    if not launch.launched:
        raise NotApplicable(NO_LAUNCH)
    if not launch.master_port:
        if launch.standalone or launch.master_port == 0 or _names_port_zero(launch) or launch.launcher == "accelerate":
            return MasterPort(0, "picked")
        raise NotApplicable("neither MASTER_PORT nor an option sets the port of the rendezvous")
    port = launch.master_port
    low, high = ephemeral_range(world)
    found = MasterPort(
        port,
        "not-tried",
        ephemeral_low=low,
        ephemeral_high=high,
        unprivileged_from=_number(world, "/proc/sys/net/ipv4/ip_unprivileged_port_start", PRIVILEGED_BELOW),
        reserved=port in reserved_ports(world),
    )
    serves = _serves(launch, master, interfaces)
    if serves is None:
        found = found._replace(state="not-known")
    elif serves:
        found = _tried(world, found)
    unwise = _is_unwise(found) and launch.port_chosen and found.state != "not-tried"
    if unwise or found.state in ("taken", "taken-on-ipv6", "privileged"):
        found = found._replace(free_port=_free_port(world, found))
    return found


def _tried(world: World, found: MasterPort) -> MasterPort:
    try:
        whole = world.try_listen(found.port)
    except PermissionError:
        return found._replace(state="privileged")
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise Unavailable(f"port {found.port} can't be tried: {error.strerror or error}") from error
    else:
        if whole:
            return found._replace(state="free")
        found = found._replace(state="taken-on-ipv6")
    if found.state != "taken-on-ipv6":
        found = found._replace(state="taken")
    sockets = _sockets(world, found.port)
    owner = _find_owner(world, sockets)
    if owner is not None and (owner.ancestor or owner.holds != "listening"):
        return found._replace(owner=owner)
    listener, greeting = _ask(world, found.port, _loopbacks(found, sockets))
    return found._replace(owner=owner, listener=listener, greeting=greeting)


@probe(rules.DC401)
def master_port_is_free(launch: Launch, port: MasterPort, master: MasterName | Unavailable) -> Iterator[Finding]:
    """Report a master port that is taken on the host that must listen there; the job's own agent does not count."""
    if port.state == "not-known":
        raise Unavailable(f"whether this host is the one that will listen on port {port.port} is not known")
    if port.state not in ("taken", "taken-on-ipv6") or (port.owner is not None and port.owner.ancestor):
        return
    severity = None
    held = f"port {port.port} is held by {_describe(port.owner)}"
    if port.state == "taken-on-ipv6":
        if isinstance(master, Unavailable) or not any(":" in address for address in master.name.addresses):
            return
        message = f"{held} on IPv6, and {master.name.name} is an IPv6 address: the ranks will talk to that process"
    elif launch.rdzv_backend == "c10d" and port.listener == "torch-store":
        severity = Severity.INFO
        message = f"{held}, a store of torch: this launch will join it, and end with it"
    elif launch.rdzv_backend == "c10d" and port.listener == "silent":
        message = f"{held}, which never answers: torchrun will take it for its rendezvous and wait without end"
    else:
        message = held + _LISTENERS.get(port.listener or "", "")
    yield rules.DC401.found(
        message,
        severity=severity,
        where=Where(variable=_variable(launch)),
        evidence=_evidence(port),
        fix=_another_port(launch, port),
    )


@probe(rules.DC402)
def master_port_is_wise(launch: Launch, port: MasterPort) -> Iterator[Finding]:
    """Report a port that may not be bound, or that the kernel may assign to another process before the launch.

    The random port that c10d gives to its ranks lies in the ephemeral range as well, but is bound as it is picked.
    """
    if not launch.port_chosen or launch.scheduler == "ray" or port.state in ("picked", "not-tried"):
        return
    evidence = _evidence(port)
    where = Where(variable=_variable(launch))
    if port.state == "privileged":
        yield rules.DC402.found(
            f"port {port.port} is below {port.unprivileged_from}, and this user may not listen there",
            severity=Severity.ERROR if launch.launched else Severity.INFO,
            where=where,
            evidence=evidence,
            fix=_another_port(launch, port),
        )
    elif _is_ephemeral(port.port, port) and not port.reserved and not _is_held_by_us(port):
        yield rules.DC402.found(
            f"port {port.port} lies in {port.ephemeral_low}-{port.ephemeral_high}, from which the kernel takes "
            "ports for outgoing connections: it may be taken when the job starts",
            where=where,
            evidence=evidence,
            fix=_another_port(launch, port),
        )


# trying


def _names_port_zero(launch: Launch) -> bool:
    return (launch.rdzv_endpoint or "").endswith(":0")


def _serves(launch: Launch, master: MasterName | Unavailable, interfaces: Interfaces | Unavailable) -> bool | None:
    """Return whether this host must listen; None if unknown."""
    if launch.rank:
        return False
    known = launch.serves_store
    if known is not None or isinstance(master, Unavailable) or isinstance(interfaces, Unavailable):
        return known
    return is_own(master.name.addresses, interfaces) if master.name.addresses else None


def _free_port(world: World, found: MasterPort) -> int | None:
    """Return a port that is free now and that the kernel never assigns by itself; None if none was found.

    Never torchrun's default: every other job without a port takes that one.
    """
    trials = 0
    for port in chain(range(DEFAULT_PORT + 1, _EPHEMERAL_FROM), range(20000, DEFAULT_PORT)):
        if port == found.port or _is_ephemeral(port, found) or port < found.unprivileged_from:
            continue
        trials += 1
        if trials > _MOST_TRIALS:
            break
        try:
            if world.try_listen(port):
                return port
        except OSError:
            continue
    return None


def _loopbacks(found: MasterPort, sockets: Iterable[_Socket]) -> list[str]:
    """Where a listener of this host can be reached: at its own address, or at loopback where it has none."""
    own = [item.address for item in sockets if item.state == _LISTENING and item.address not in _UNSPECIFIED]
    return own or (["::1"] if found.state == "taken-on-ipv6" else ["127.0.0.1", "::1"])


def _ask(world: World, port: int, addresses: Sequence[str]) -> tuple[str | None, str | None]:
    """Return the kind of a listener, tried as a client of torch's store and then as a browser."""
    for address in addresses:
        try:
            answer = _first_bytes(world, port, address)
        except OSError:
            continue
        if not answer:
            return ("silent" if answer is None else "closes"), None
        if answer.startswith(STORE_NONCE):
            return "torch-store", None
        kind = "web-server" if answer.startswith(b"HTTP/") else "other"
        return kind, mask(answer.decode("latin-1").encode("unicode_escape").decode())
    return None, None


def _first_bytes(world: World, port: int, address: str) -> bytes | None:
    """The first answer that has words in it; else b"" where it closed at last, None where it kept silent."""
    answer: bytes | None = None
    for hello in (STORE_HELLO, WEB_HELLO):
        answer = world.connect(address, port, timeout_s=_ANSWER_LIMIT_S, greeting_s=_ANSWER_LIMIT_S, greeting=hello)
        if answer:
            break
    return answer


# /proc


def _number(world: World, path: str, default: int) -> int:
    try:
        return int(world.read_text(path))
    except (OSError, ValueError):
        return default


def ephemeral_range(world: World) -> tuple[int | None, int | None]:
    try:
        low, high = world.read_text("/proc/sys/net/ipv4/ip_local_port_range").split()
        return int(low), int(high)
    except (OSError, ValueError):
        return None, None


def reserved_ports(world: World) -> frozenset[int]:
    """Return the ports that the kernel assigns only on request (ip-sysctl, ip_local_reserved_ports)."""
    text = world.text_or_empty("/proc/sys/net/ipv4/ip_local_reserved_ports")
    return frozenset(expand_ranges(text, HIGHEST_PORT + 1))


def _is_ephemeral(port: int, found: MasterPort) -> bool:
    low, high = found.ephemeral_low, found.ephemeral_high
    return low is not None and high is not None and low <= port <= high


def _is_unwise(found: MasterPort) -> bool:
    return _is_ephemeral(found.port, found) and not found.reserved


def _is_held_by_us(found: MasterPort) -> bool:
    return found.owner is not None and found.owner.ancestor


def _find_owner(world: World, sockets: Sequence[_Socket]) -> PortOwner | None:
    """Return the owner of the port, a listener first; None if /proc does not show it."""
    if not sockets:
        return None
    first = min(sockets, key=lambda item: (item.state != _LISTENING, item.inode == _NO_INODE))
    if first.inode == _NO_INODE:
        return PortOwner(None, holds="closing")
    holds = "listening" if first.state == _LISTENING else "connected"
    lineage = _lineage(world)
    pid = _holder(world, {item.inode for item in sockets if item.state == first.state}, lineage)
    users = read_users(world)
    if pid is None:
        return PortOwner(None, _user(first.user_id, users), own=first.user_id == world.user_id, holds=holds)
    status = _status(world, pid)
    real = status.get("Uid", "").split()[:1]
    user_id = int(real[0]) if real and real[0].isdecimal() else first.user_id
    return PortOwner(
        pid,
        _user(user_id, users),
        _command(world, pid) or status.get("Name"),
        read_start(world, pid),
        ancestor=pid in lineage,
        own=user_id == world.user_id,
        orphan=user_id == world.user_id and pid not in lineage and _is_orphan(world, pid, status),
        holds=holds,
    )


def _sockets(world: World, port: int) -> tuple[_Socket, ...]:
    """The sockets of this network namespace whose local port it is."""
    found = []
    for path, family in (("/proc/net/tcp", socket.AF_INET), ("/proc/net/tcp6", socket.AF_INET6)):
        for fields in map(str.split, world.text_or_empty(path).splitlines()[1:]):
            if len(fields) > 9 and fields[1].endswith(f":{port:04X}") and fields[7].isdecimal():
                found.append(_Socket(fields[3], int(fields[7]), fields[9], _address(family, fields[1])))
    return tuple(found)


def _address(family: socket.AddressFamily, field: str) -> str:
    """``0100007F:7149`` as an address: the kernel prints 32-bit words in the machine's own order."""
    try:
        words = bytes.fromhex(field.partition(":")[0])
        if sys.byteorder == "little":
            words = b"".join(words[start : start + 4][::-1] for start in range(0, len(words), 4))
        return socket.inet_ntop(family, words)
    except ValueError:
        return "::"


def _lineage(world: World) -> tuple[int, ...]:
    """This process and those above it, nearest first."""
    found: list[int] = []
    pid = world.pid
    while pid > 0 and pid not in found:
        found.append(pid)
        parent = _status(world, pid).get("PPid", "0")
        pid = int(parent) if parent.isdecimal() else 0
    return tuple(found)


def _holder(world: World, inodes: set[str], lineage: Sequence[int]) -> int | None:
    """The process that has one of the sockets open; of several that share it ours, then the lowest number."""
    wanted = {f"socket:[{inode}]" for inode in inodes}
    until = time.monotonic() + _SCAN_LIMIT_S
    others = sorted(int(name) for name in world.names_or_empty("/proc") if name.isdecimal())
    for pid in dict.fromkeys((*lineage, *others)):
        if time.monotonic() > until:
            return None
        # another user's process, and one that just exited, show no files
        names = world.names_or_empty(f"/proc/{pid}/fd")
        if any(world.link_or_empty(f"/proc/{pid}/fd/{name}") in wanted for name in names):
            return pid
    return None


def _status(world: World, pid: int) -> dict[str, str]:
    """Return /proc/PID/status as a mapping; empty if the process has exited."""
    lines = world.text_or_empty(f"/proc/{pid}/status").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _command(world: World, pid: int) -> str:
    """Its command line, credentials masked, cut to a length that a line can hold."""
    words = world.text_or_empty(f"/proc/{pid}/cmdline").rstrip("\0").split("\0")
    line = " ".join(shown_command(words)).encode("unicode_escape").decode()
    return line if len(line) <= _LONGEST_COMMAND else line[: _LONGEST_COMMAND - 1] + "…"


def _is_orphan(world: World, pid: int, status: dict[str, str]) -> bool:
    """torchrun started it, and the process that adopts orphans is its parent now."""
    parent = status.get("PPid", "")
    if not parent.isdecimal() or _status(world, int(parent)).get("Name") not in _ADOPTERS:
        return False
    variables = world.text_or_empty(f"/proc/{pid}/environ").split("\0")
    return any(item.startswith("TORCHELASTIC_RUN_ID=") for item in variables)


def _user(user_id: int, users: dict[int, str]) -> str:
    return users.get(user_id, f"uid {user_id}")


# words


#: Text about the listener that adds to the name of its process.
_LISTENERS = {"torch-store": ", a store of torch", "web-server": ", a web server"}
_OPTIONS = {
    "torchrun": "--master-port",
    "torch.distributed.launch": "--master-port",
    "accelerate": "--main_process_port",
    "deepspeed": "--master_port",
}


def _variable(launch: Launch) -> str:
    """What names the port."""
    if launch.stage != "planned":
        return "MASTER_PORT"
    return "--rdzv-endpoint" if launch.rdzv_endpoint else _OPTIONS.get(launch.launcher or "", "MASTER_PORT")


def _describe(owner: PortOwner | None) -> str:
    if owner is None:
        return "a process that this user may not inspect"
    if owner.holds == "closing":
        return "connections of an earlier listener that still close (within a minute)"
    if owner.pid is None:
        whose = "this user, in another container" if owner.own else f"{owner.user} that this user may not inspect"
        return f"a process of {whose}"
    whose = f"your process {owner.pid}" if owner.own else f"process {owner.pid} of {owner.user}"
    if owner.started_at is not None:
        whose += time.strftime(", since %Y-%m-%d %H:%M UTC", time.gmtime(owner.started_at))
    uses = ", as its end of a connection" if owner.holds == "connected" else ""
    return f"{owner.command or 'a program'} ({whose}){uses}"


def _evidence(port: MasterPort) -> dict[str, object]:
    evidence: dict[str, object] = {"port": port.port, "state": port.state}
    if port.owner is not None:
        evidence["owner"] = port.owner._asdict()
    if port.listener is not None:
        evidence["listener"] = port.listener
        evidence["greeting"] = port.greeting
    if port.ephemeral_low is not None:
        evidence["ephemeral_range"] = [port.ephemeral_low, port.ephemeral_high]
    return evidence


def _another_port(launch: Launch, port: MasterPort) -> Fix:
    """Name a free port where the launch names this one, the same for all nodes."""
    number = str(port.free_port) if port.free_port is not None else "PORT"
    all_nodes = ", the same on every node" if launch.several_nodes else ""
    free = "is free here" if port.free_port is not None else "must be free"
    left_over = ""
    owner = port.owner
    if owner is not None and owner.orphan and owner.pid is not None:
        left_over = f"; process {owner.pid} is your worker and its torchrun has exited: 'kill {owner.pid}' ends it"
    elif owner is not None and owner.holds == "closing":
        left_over = "; or wait a minute"
    variable = _variable(launch)
    if variable == "MASTER_PORT":
        return Fix(
            f"take another port{all_nodes}: {number} {free}{left_over}",
            command=None if port.free_port is None else f"export MASTER_PORT={number}",
            where="job-script",
        )
    if variable == "--rdzv-endpoint":
        host = launch.master_addr or "localhost"
        option = f"--rdzv-endpoint={f'[{host}]' if ':' in host else host}:{number}"
    else:
        option = f"{variable}{'=' if variable == '--master-port' else ' '}{number}"
    alone = "" if launch.several_nodes or "_" in variable else ", or --standalone, which finds a port by itself"
    return Fix(
        f"take another port{all_nodes}: {option} ({number} {free}){alone}{left_over}",
        command=None if port.free_port is None else _relaunch(launch, option),
        where="launch-line",
    )


def _relaunch(launch: Launch, option: str) -> str | None:
    """The command as it was given, with another value of one option; None where it does not stand there in the open."""
    command = launch.command
    if command is None or mask_arguments(command.argv) != tuple(command.argv):
        return None
    separator = "=" if "=" in option else " "
    name, _, value = option.partition(separator)
    words = list(command.argv)
    for index in _before_script(words, command.script):
        word, equals, _ = words[index].partition("=")
        if word.replace("_", "-") != name.replace("_", "-"):
            continue
        if equals:
            words[index] = f"{word}={value}"
        elif index + 1 < len(words):
            words[index + 1] = value
        else:
            return None
        import shlex

        return shlex.join(words)
    return None


def _before_script(words: Sequence[str], script: str | None) -> Iterable[int]:
    """Where the launcher's own options stand: what follows the script is the script's."""
    return range(words.index(script) if script in words else len(words))
