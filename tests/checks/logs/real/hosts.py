"""Two hosts in network namespaces whose network is really broken, one way after the other."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.lab import Lab

from .bench import Bench, Recording, Task, record
from .jobs import CLEAN, UNNAMED

PORT = "29500"
Hosts = tuple[Lab, Sequence[Bench]]


@contextmanager
def two_hosts() -> Iterator[Hosts]:
    """Two hosts, on each a process from which ranks are forked."""
    with ExitStack() as stack:
        lab = stack.enter_context(Lab(2, network=7))
        benches = []
        for name, space in zip(lab.names, lab.spaces, strict=True):
            inner = f'hostname {name}; exec ip netns exec {space} "$@"'
            benches.append(stack.enter_context(Bench(command=("unshare", "-u", "sh", "-c", inner, "sh"))))
        yield lab, benches


class Scenario(NamedTuple):
    """A network, and what must be told of the job on it."""

    make: Callable[[Hosts, Path], Recording]
    #: codes of which one must be told first, or outcomes
    expected: tuple[str, ...]
    rank: int | None = None

    @property
    def name(self) -> str:
        return self.make.__name__


def each_rank(
    hosts: Hosts,
    folder: Path,
    *arguments: str,
    script: str = "train.py",
    ranks: Sequence[int] = (0, 1),
    env: Mapping[str, str] | None = None,
    each: Mapping[int, Mapping[str, str]] | None = None,
) -> Recording:
    """A rank on each host, its variables set by hand; ``ranks`` are those that are started."""
    lab, benches = hosts
    tasks = [
        Task(
            script,
            arguments,
            env={
                "RANK": str(rank),
                "WORLD_SIZE": "2",
                "LOCAL_RANK": "0",
                "MASTER_ADDR": lab.address(0),
                "MASTER_PORT": PORT,
                "GLOO_SOCKET_IFNAME": "eth0",
                **(env or {}),
                **(each or {}).get(rank, {}),
            },
            host=rank,
        )
        for rank in ranks
    ]
    return record(benches, tasks, folder, limit_s=60)


def torchrun(
    hosts: Hosts, folder: Path, *options: str, script: str = "train.py", ranks: int = 1, limit_s: float = 60
) -> Recording:
    """A torchrun on each host, with so many ranks."""
    _, benches = hosts
    tasks = [
        Task(
            "torchrun",
            ("--nnodes=2", f"--node-rank={host}", f"--nproc-per-node={ranks}", *options, script),
            env={"GLOO_SOCKET_IFNAME": "eth0"},
            host=host,
        )
        for host in range(2)
    ]
    return record(benches, tasks, folder, limit_s=limit_s)


def rules_removed(lab: Lab, host: int) -> None:
    """Take a firewall of the lab away."""
    while (
        subprocess.run(["ip", "-n", lab.spaces[host], "rule", "del", "pref", "5"], capture_output=True).returncode == 0
    ):
        pass


def a_healthy_job(hosts: Hosts, folder: Path) -> Recording:
    return torchrun(hosts, folder, f"--master-addr={hosts[0].address(0)}", f"--master-port={PORT}", limit_s=120)


def hosts_without_ipv6(hosts: Hosts, folder: Path) -> Recording:
    """torch tries IPv6 first, and says so."""
    lab, _ = hosts
    try:
        for host in range(2):
            lab.run(host, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1")
            lab.set_hosts_file(host, {"node0.cluster": lab.address(0)})
        recording = each_rank(hosts, folder, env={"MASTER_ADDR": "node0.cluster"})
    finally:
        for host in range(2):
            lab.run(host, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=0")
            lab.set_hosts_file(host, {})
    return recording


def the_name_of_each_host_is_its_loopback(hosts: Hosts, folder: Path) -> Recording:
    lab, _ = hosts
    try:
        for host in range(2):
            lab.set_hosts_file(host, {f"node{host}": "127.0.1.1"})
        recording = each_rank(hosts, folder, "--timeout=2", env={"GLOO_SOCKET_IFNAME": ""})
    finally:
        for host in range(2):
            lab.set_hosts_file(host, {})
    return recording


def the_name_of_each_host_is_its_bridge_for_containers(hosts: Hosts, folder: Path) -> Recording:
    lab, _ = hosts
    try:
        for host in range(2):
            lab.add_bridge(host, address=f"172.17.0.{host + 1}/16")
            lab.set_hosts_file(host, {f"node{host}": f"172.17.0.{host + 1}"})
        recording = each_rank(hosts, folder, "--timeout=2", env={"GLOO_SOCKET_IFNAME": ""})
    finally:
        for host in range(2):
            lab.set_hosts_file(host, {})
            lab.run(host, "ip", "link", "del", "docker0")
    return recording


def only_the_masters_port_is_open(hosts: Hosts, folder: Path) -> Recording:
    lab, _ = hosts
    try:
        for host in range(2):
            lab.drop(host, "1024-29499")
            lab.drop(host, "29501-65534")
            lab.set_port_range(host, 40_000, 60_000)
            # what answers the store is let through: its clients come from a range of their own
        recording = each_rank(hosts, folder, "--timeout=5")
    finally:
        for host in range(2):
            rules_removed(lab, host)
            lab.set_port_range(host, 32_768, 60_999)
    return recording


def the_master_drops_what_comes(hosts: Hosts, folder: Path) -> Recording:
    lab, _ = hosts
    try:
        lab.drop(0, "29500-29500")
        recording = each_rank(hosts, folder, "--timeout=5")
    finally:
        rules_removed(lab, 0)
    return recording


def no_way_leads_to_the_master(hosts: Hosts, folder: Path) -> Recording:
    return each_rank(hosts, folder, "--timeout=3", each={1: {"MASTER_ADDR": "10.99.0.1"}})


def nothing_listens_on_the_master(hosts: Hosts, folder: Path) -> Recording:
    return each_rank(hosts, folder, "--timeout=3", ranks=[1])


def the_name_of_the_master_is_unknown_on_the_other_host(hosts: Hosts, folder: Path) -> Recording:
    lab, _ = hosts
    try:
        lab.set_hosts_file(0, {"headnode": lab.address(0)})
        recording = each_rank(hosts, folder, "--timeout=4", env={"MASTER_ADDR": "headnode"})
    finally:
        lab.set_hosts_file(0, {})
    return recording


def an_interface_that_only_one_host_has(hosts: Hosts, folder: Path) -> Recording:
    return each_rank(hosts, folder, "--timeout=4", each={1: {"GLOO_SOCKET_IFNAME": "enp5s0"}})


def the_cable_is_pulled(hosts: Hosts, folder: Path) -> Recording:
    lab, _ = hosts
    pull = threading.Timer(4.0, lab.cut, (1,))
    pull.start()
    try:
        recording = each_rank(hosts, folder, script="cable.py")
    finally:
        pull.cancel()
        pull.join()
        lab.fix(1)
    return recording


def no_host_knows_itself_as_the_rendezvous(hosts: Hosts, folder: Path) -> Recording:
    """The endpoint is a name of the service; the hosts' own names lead to other addresses."""
    lab, _ = hosts
    try:
        for host in range(2):
            lab.set_hosts_file(host, {"train-service": lab.address(0), f"node{host}": "127.0.1.1"})
        recording = torchrun(
            hosts,
            folder,
            "--rdzv-backend=c10d",
            "--rdzv-id=4711",
            "--rdzv-endpoint=train-service:29400",
            "--rdzv-conf=read_timeout=4",
        )
    finally:
        for host in range(2):
            lab.set_hosts_file(host, {})
    return recording


def one_rank_of_four_raises(hosts: Hosts, folder: Path) -> Recording:
    options = (f"--master-addr={hosts[0].address(0)}", f"--master-port={PORT}")
    return torchrun(hosts, folder, *options, script="raises.py", ranks=2, limit_s=40)


SCENARIOS = (
    Scenario(a_healthy_job, (CLEAN,)),
    Scenario(hosts_without_ipv6, (CLEAN,)),
    Scenario(the_name_of_each_host_is_its_loopback, ("DC405",)),
    Scenario(the_name_of_each_host_is_its_bridge_for_containers, ("DC411", "DC412", "DC405")),
    Scenario(only_the_masters_port_is_open, ("DC412", "DC403", "DC501")),
    Scenario(the_master_drops_what_comes, ("DC403", "DC412")),
    Scenario(no_way_leads_to_the_master, ("DC403",)),
    Scenario(nothing_listens_on_the_master, ("DC403",)),
    Scenario(the_name_of_the_master_is_unknown_on_the_other_host, ("DC404",)),
    Scenario(an_interface_that_only_one_host_has, ("DC407",)),
    Scenario(the_cable_is_pulled, ("DC511", "DC512")),
    Scenario(no_host_knows_itself_as_the_rendezvous, ("DC408", "DC403")),
    Scenario(one_rank_of_four_raises, (UNNAMED,), 2),
)
