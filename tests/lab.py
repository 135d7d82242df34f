"""Several hosts on one Linux machine: network namespaces behind a bridge, each with its own name and hosts file.

Needs root and iproute2 (mark tests with ``netns``). Usual use::

    with Lab(3) as lab:
        process = lab.start(1, sys.executable, "-c", "import socket; print(socket.gethostname())")

Hosts are called node0, node1 … and have the addresses 10.77.0.1, 10.77.0.2 … on their interface ``eth0``. All that the
lab made goes with it: processes by their ids, then namespaces and files.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from types import TracebackType

REPOSITORY = Path(__file__).parent.parent
#: Labs of one process are told apart by this number, those of several processes by their ids.
_numbers = count()


class Lab:
    """Some hosts and the switch between them.

    :param hosts: how many
    :param network: the third number of their addresses, 10.77.NETWORK.0/24
    :param names: what they are called; node0, node1 … by default
    """

    def __init__(self, hosts: int, *, network: int = 0, names: tuple[str, ...] = ()) -> None:
        self.names = names or tuple(f"node{number}" for number in range(hosts))
        self.network = network
        mark = f"{os.getpid()}-{next(_numbers)}"
        self.spaces = tuple(f"dclab-{mark}-{number}" for number in range(hosts))
        self.switch = f"dclab-{mark}-s"
        self._made: list[str] = []
        self._folders: list[Path] = []
        self._processes: list[subprocess.Popen[str]] = []
        self._cables = count()
        self._firewalls: set[int] = set()

    def __enter__(self) -> Lab:
        try:
            self._make()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # what is there

    def address(self, host: int) -> str:
        """The address of a host on ``eth0``."""
        return f"10.77.{self.network}.{host + 1}"

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses of all hosts."""
        return tuple(self.address(number) for number in range(len(self.names)))

    def start(
        self,
        host: int,
        *command: str,
        cwd: Path | str | None = None,
        env: Mapping[str, str] | None = None,
        **extra: str,
    ) -> subprocess.Popen[str]:
        """Start a program on a host, in a session of its own; it ends with the lab at the latest.

        :param env: the whole environment; None: this process's, with the repository on PYTHONPATH
        :param extra: variables besides
        """
        inner = f'hostname {self.names[host]}; exec ip netns exec {self.spaces[host]} "$@"'
        process = subprocess.Popen(
            ["unshare", "-u", "sh", "-c", inner, "sh", *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cwd,
            env={**(_environment() if env is None else env), **extra},
            start_new_session=True,
        )
        self._processes.append(process)
        return process

    def python(self, host: int, program: str, *arguments: str, **extra: str) -> subprocess.Popen[str]:
        """Start a piece of Python on a host; distcheck and the tests can be imported there."""
        return self.start(host, sys.executable, "-c", program, *arguments, env={**_environment(), **extra})

    def run(self, host: int, *command: str) -> str:
        """Run a short command in a host's namespace, as root of it; raises where it fails."""
        return _run("ip", "netns", "exec", self.spaces[host], *command)

    # faults

    def set_mtu(self, host: int, mtu_bytes: int, *, interface: str = "eth0", both_ends: bool = True) -> None:
        """Give a host's interface another MTU; ``both_ends``: the switch's port as well."""
        if both_ends and interface == "eth0":
            _run("ip", "-n", self.switch, "link", "set", f"p{host}", "mtu", str(mtu_bytes))
        _run("ip", "-n", self.spaces[host], "link", "set", interface, "mtu", str(mtu_bytes))

    def slow_down(self, host: int, rate: str = "50mbit", *, interface: str = "eth0") -> None:
        """Let a host send no faster than this (tc-tbf(8))."""
        _run(
            *("tc", "-n", self.spaces[host], "qdisc", "add", "dev", interface, "root"),
            *("tbf", "rate", rate, "burst", "32kbit", "latency", "400ms"),
        )

    def drop(self, host: int, ports: str, *, outgoing: bool = False, peer: int | None = None) -> None:
        """Let a host drop TCP to ports (``29501-29999``) without a word, as a firewall does.

        It takes routing rules on what comes in, so that no firewall program is needed: connections to this host's own
        ports lose their first packet, with ``outgoing`` those from this host to others' ports lose the answer to it.
        The rules know no connections: answers that come to this host on a port of its own in that range are lost as
        well, so where only the one direction is wanted, let it choose from other ports (:meth:`set_port_range`). The
        last port that can be named is 65534.

        :param peer: only from, or to, this host
        """
        space = self.spaces[host]
        if host not in self._firewalls:
            # what is meant for this host itself is looked up first of all: make room before that
            _run("ip", "-n", space, "rule", "add", "pref", "10", "lookup", "local")
            _run("ip", "-n", space, "rule", "del", "pref", "0")
            self._firewalls.add(host)
        side = [] if peer is None else ["from", self.address(peer)]
        what = ["iif", "eth0", "ipproto", "tcp", "sport" if outgoing else "dport", ports]
        _run("ip", "-n", space, "rule", "add", "pref", "5", *side, *what, "blackhole")

    def set_port_range(self, host: int, low: int, high: int) -> None:
        """What a host's kernel chooses from (ip_local_port_range)."""
        self.run(host, "sh", "-c", f"echo {low} {high} > /proc/sys/net/ipv4/ip_local_port_range")

    def prohibit(self, host: int, ports: str, *, kind: str = "prohibit") -> None:
        """Let a host's own kernel refuse to connect to ports (``40000-50000``), at once (ip-rule(8))."""
        _run("ip", "-n", self.spaces[host], "rule", "add", "ipproto", "tcp", "dport", ports, kind)

    def cut(self, host: int) -> None:
        """Pull the host's cable."""
        _run("ip", "-n", self.switch, "link", "set", f"p{host}", "down")

    def fix(self, host: int) -> None:
        """Put the cable in again."""
        _run("ip", "-n", self.switch, "link", "set", f"p{host}", "up")

    def add_interface(self, host: int, name: str, address: str | None = None) -> None:
        """One more interface to the same switch, with an address such as ``10.78.0.1/24``."""
        port = f"x{next(self._cables)}"
        _run(
            "ip",
            "link",
            "add",
            port,
            "netns",
            self.switch,
            "type",
            "veth",
            "peer",
            "name",
            name,
            "netns",
            self.spaces[host],
        )
        _run("ip", "-n", self.switch, "link", "set", port, "master", "br0", "up")
        if address is not None:
            _run("ip", "-n", self.spaces[host], "addr", "add", address, "dev", name)
        _run("ip", "-n", self.spaces[host], "link", "set", name, "up")

    def add_bridge(self, host: int, name: str = "docker0", address: str = "172.17.0.1/16") -> None:
        """A bridge that leads nowhere, as container engines make it."""
        _run("ip", "-n", self.spaces[host], "link", "add", name, "type", "bridge")
        _run("ip", "-n", self.spaces[host], "addr", "add", address, "dev", name)
        _run("ip", "-n", self.spaces[host], "link", "set", name, "up")

    def set_hosts_file(self, host: int, lines: Mapping[str, str]) -> None:
        """What names lead to on a host: ``{"node1": "127.0.1.1"}``; the other hosts' names stay. Before it starts."""
        known = {**dict(zip(self.names, self.addresses, strict=True)), **lines}
        text = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in known.items())]
        (Path("/etc/netns") / self.spaces[host] / "hosts").write_text("\n".join(text) + "\n", encoding="utf-8")

    # making and removing

    def _make(self) -> None:
        self._add(self.switch)
        _run("ip", "-n", self.switch, "link", "add", "br0", "type", "bridge")
        _run("ip", "-n", self.switch, "link", "set", "br0", "up")
        for number, space in enumerate(self.spaces):
            self._add(space)
            port = f"p{number}"
            _run(
                "ip", "link", "add", port, "netns", self.switch, "type", "veth", "peer", "name", "eth0", "netns", space
            )
            _run("ip", "-n", self.switch, "link", "set", port, "master", "br0", "up")
            _run("ip", "-n", space, "addr", "add", f"{self.address(number)}/24", "dev", "eth0")
            _run("ip", "-n", space, "link", "set", "eth0", "up")
            folder = Path("/etc/netns") / space
            folder.mkdir(parents=True)
            self._folders.append(folder)
            self.set_hosts_file(number, {})

    def _add(self, space: str) -> None:
        _run("ip", "netns", "add", space)
        self._made.append(space)
        _run("ip", "-n", space, "link", "set", "lo", "up")

    def close(self) -> None:
        """End what still runs, and remove everything."""
        for process in self._processes:
            if process.poll() is None:
                _end(process)
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
        self._processes.clear()
        for space in reversed(self._made):
            # whatever a program left there keeps neither name nor network
            for left in _processes_in(space):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(left, signal.SIGKILL)
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)
        self._made.clear()
        for folder in self._folders:
            with contextlib.suppress(OSError):
                for path in folder.iterdir():
                    path.unlink()
                folder.rmdir()
        self._folders.clear()

    def left_over(self) -> list[int]:
        """Processes that still run on any host: what a program that ended should not have left."""
        return [process for space in self.spaces for process in _processes_in(space)]


def finish(process: subprocess.Popen[str], timeout_s: float = 60.0) -> tuple[int | None, str, str]:
    """Status, output and errors of a program; one that does not end in time is ended, and its status is None."""
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        _end(process)
        out, err = process.communicate()
        return None, out, err
    return process.returncode, out, err


def _end(process: subprocess.Popen[str]) -> None:
    """End a session that this lab started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    end = time.monotonic() + 5.0
    while process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)


def _processes_in(space: str) -> Iterator[int]:
    made = subprocess.run(["ip", "netns", "pids", space], check=False, capture_output=True, text=True)
    yield from (int(line) for line in made.stdout.split())


def _run(*command: str) -> str:
    made = subprocess.run(command, check=False, capture_output=True, text=True)
    if made.returncode != 0:
        raise OSError(f"{' '.join(command)}: {made.stderr.strip() or made.returncode}")
    return made.stdout


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DISTCHECK_", "SLURM_", "PET_"))}
    kept["PYTHONPATH"] = str(REPOSITORY)
    return kept
