"""Two hosts on one machine: network namespaces with names, addresses and routes of their own."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytestmark = pytest.mark.netns

REPOSITORY = Path(__file__).parents[3]
RULES = ("DC401", "DC402", "DC403", "DC404", "DC405", "DC408", "DC409", "DC419")

#: Judges a launch command in the place where it is run, and prints the report.
EXAMINE = """
import json, shlex, sys
from distcheck.checks.host.examine import examine
from distcheck.launch.command import parse_command
from distcheck.launch.reader import LaunchOptions, make_launch
from distcheck.rules import Selection
from distcheck.core.world import World
world = World({})
launch = make_launch({}, command=parse_command(shlex.split(sys.argv[1])), options=LaunchOptions(backend="gloo"))
print(json.dumps(examine(launch, world, selection=Selection.of(sys.argv[2].split(","))).as_dict(with_facts=True)))
"""

LISTEN = """
import socket, sys, time
listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
print("listening", flush=True)
time.sleep(300)
"""


class Host(NamedTuple):
    """A network namespace with its own host name and hosts file."""

    namespace: str
    name: str
    address: str
    hosts_file: Path

    def command(self, *words: str) -> list[str]:
        """What runs a command there: its own network, and name and hosts file for the time of the command."""
        setup = (
            'hostname "$1"; mount --bind "$2" /etc/hosts; mount --bind /dev/null /etc/resolv.conf; shift 2; exec "$@"'
        )
        inside = ("unshare", "--uts", "--mount", "sh", "-ec", setup, "sh", self.name, str(self.hosts_file), *words)
        return ["ip", "netns", "exec", self.namespace, *inside]

    def examine(self, line: str, *, select: tuple[str, ...] = RULES) -> dict[str, Any]:
        """The report on a launch command that is given on this host."""
        words = self.command(sys.executable, "-c", EXAMINE, line, ",".join(select))
        done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        assert isinstance(report, dict)
        return report

    @contextlib.contextmanager
    def listening(self, port: int, address: str = "0.0.0.0") -> Iterator[int]:
        """A process that listens there and keeps silent; its number."""
        words = ["ip", "netns", "exec", self.namespace, sys.executable, "-c", LISTEN, address, str(port)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == "listening\n"
                yield process.pid
            finally:
                process.kill()

    def ip(self, line: str) -> None:
        run_ip(f"-n {self.namespace} {line}")


def run_ip(line: str) -> None:
    subprocess.run(["ip", *line.split()], check=True, capture_output=True)


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[tuple[Host, Host]]:
    """node0 (10.77.0.1) and node1 (10.77.0.2), as Debian makes them: the own name is 127.0.1.1."""
    made = []
    try:
        for number in (0, 1):
            hosts_file = tmp_path / f"hosts{number}"
            other = 1 - number
            hosts_file.write_text(f"127.0.0.1 localhost\n127.0.1.1 node{number}\n10.77.0.{other + 1} node{other}\n")
            host = Host(f"distcheck-{os.getpid()}-{number}", f"node{number}", f"10.77.0.{number + 1}", hosts_file)
            run_ip(f"netns add {host.namespace}")
            made.append(host)
            host.ip("link set lo up")
        first, second = made
        run_ip(f"link add eth0 netns {first.namespace} type veth peer name eth0 netns {second.namespace}")
        for host in made:
            host.ip(f"address add {host.address}/24 dev eth0")
            host.ip("link set eth0 up")
        yield first, second
    finally:
        for host in made:
            run_ip(f"netns del {host.namespace}")


def found(report: dict[str, Any]) -> dict[str, str]:
    """Severities by code."""
    return {finding["code"]: finding["severity"] for finding in report["findings"]}


def reach(report: dict[str, Any]) -> str:
    return str(report["facts"]["MasterReach"]["outcome"])


def static(rank: int, address: str = "10.77.0.1", port: int = 29500) -> str:
    return f"torchrun --nnodes=2 --node-rank={rank} --master-addr={address} --master-port={port} train.py"


def test_good_a_master_that_listens(hosts: tuple[Host, Host]) -> None:
    first, second = hosts
    second.hosts_file.write_text("127.0.0.1 localhost\n10.77.0.1 node0\n10.77.0.2 node1\n")
    with first.listening(29500):
        for address in ("10.77.0.1", "node0"):
            report = second.examine(static(1, address))
            assert reach(report) == "connected"
            assert found(report) == {}


def test_bad_master_that_nobody_has_started(hosts: tuple[Host, Host]) -> None:
    _, second = hosts
    report = second.examine(static(1))
    assert reach(report) == "refused"
    assert found(report)["DC403"] == "info"


def test_bad_master_that_does_not_answer(hosts: tuple[Host, Host]) -> None:
    _, second = hosts
    second.ip("neighbour replace 10.77.0.9 lladdr 02:00:00:00:00:09 dev eth0")
    report = second.examine(static(1, "10.77.0.9"))
    assert reach(report) == "timeout"
    assert found(report)["DC403"] == "error"


@pytest.mark.parametrize("way", ["prohibit", "blackhole", "unreachable"])
def test_bad_master_without_a_route(hosts: tuple[Host, Host], way: str) -> None:
    _, second = hosts
    second.ip(f"rule add to 10.88.0.0/16 {way}")
    report = second.examine(static(1, "10.88.0.1"))
    assert reach(report) == "no-route"
    assert found(report)["DC403"] == "error"


def test_bad_master_in_no_network_at_all(hosts: tuple[Host, Host]) -> None:
    _, second = hosts
    report = second.examine(static(1, "10.99.0.1"))
    assert reach(report) == "no-route"
    (finding,) = (item for item in report["findings"] if item["code"] == "DC403")
    assert "unreachable" in finding["message"]


def test_the_host_that_serves_does_not_connect(hosts: tuple[Host, Host]) -> None:
    first, _ = hosts
    assert reach(first.examine(static(0))) == "not-tried"
    assert "DC401" not in found(first.examine(static(0)))


def test_bad_port_that_somebody_holds(hosts: tuple[Host, Host]) -> None:
    first, second = hosts
    line = "torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=node0:29400 train.py"
    first.hosts_file.write_text("127.0.0.1 localhost\n10.77.0.1 node0\n10.77.0.2 node1\n")
    with first.listening(29400) as pid:
        report = first.examine(line)
        (finding,) = (item for item in report["findings"] if item["code"] == "DC401")
        assert finding["severity"] == "error"
        assert finding["evidence"]["owner"]["pid"] == pid
        assert finding["evidence"]["listener"] == "silent"
        assert "DC401" not in found(second.examine(line))
    assert "DC401" not in found(first.examine(line))


def test_a_listener_of_another_namespace_is_not_in_the_way(hosts: tuple[Host, Host]) -> None:
    first, second = hosts
    with second.listening(29500):
        assert "DC401" not in found(first.examine(static(0)))


def test_bad_own_name_is_loopback(hosts: tuple[Host, Host]) -> None:
    first, _ = hosts
    report = first.examine(static(0))
    assert found(report)["DC405"] == "error"
    assert report["facts"]["HostName"]["name"]["addresses"] == ["127.0.1.1"]
    first.hosts_file.write_text("127.0.0.1 localhost\n10.77.0.1 node0\n")
    assert "DC405" not in found(first.examine(static(0)))


def test_bad_rendezvous_host_is_not_seen(hosts: tuple[Host, Host]) -> None:
    first, second = hosts
    line = "torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=10.77.0.1:29400 {} train.py"
    assert found(first.examine(line.format("")))["DC408"] == "error"
    assert "DC408" not in found(second.examine(line.format("")))
    assert "DC408" not in found(first.examine(line.format("--rdzv-conf=is_host=1")))
    first.hosts_file.write_text("10.77.0.1 node0\n127.0.0.1 localhost\n")
    assert "DC408" not in found(first.examine(line.format("")))


def test_bad_own_name_does_not_resolve(hosts: tuple[Host, Host]) -> None:
    first, _ = hosts
    first.hosts_file.write_text("127.0.0.1 localhost\n")
    line = "torchrun --standalone --nproc-per-node=2 {} train.py"
    assert found(first.examine(line.format("")))["DC404"] == "error"
    assert "DC404" not in found(first.examine(line.format("--local-addr=127.0.0.1")))


def test_bad_master_name_does_not_resolve(hosts: tuple[Host, Host]) -> None:
    _, second = hosts
    report = second.examine(static(1, "head-node"))
    assert found(report)["DC404"] == "error"
    assert reach(report) == "not-tried"


def test_bad_own_name_of_digits(hosts: tuple[Host, Host]) -> None:
    first, _ = hosts
    report = first._replace(name="12").examine("torchrun --standalone train.py")
    assert found(report)["DC405"] == "error"
    assert report["facts"]["HostName"]["name"]["addresses"] == ["0.0.0.12"]


def test_bad_other_name_in_a_copied_hosts_file(hosts: tuple[Host, Host]) -> None:
    _, second = hosts
    second.hosts_file.write_text("127.0.0.1 localhost\n127.0.1.1 node0\n10.77.0.2 node1\n")
    assert found(second.examine(static(1, "node0")))["DC419"] == "error"
    assert found(second.examine(static(1, "127.0.0.1")))["DC419"] == "error"
