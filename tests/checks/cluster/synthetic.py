"""Hosts and ranks that are well, to be spoiled in one way each. Not a test itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from distcheck.checks.cluster.comparison import judge
from distcheck.checks.cluster.records import (
    ClockOffset,
    Cluster,
    Code,
    Device,
    HostInterface,
    HostRdmaPort,
    HostRecord,
    RankRecord,
    Reach,
    Roll,
)
from distcheck.core.model import Finding, Report, Severity

GIB = 1 << 30
COMMIT = "0123456789abcdef0123456789abcdef01234567"
VERSIONS: Mapping[str, str] = {
    "python": "3.12.4", "torch": "2.13.0+cu130", "cuda": "13.0", "nccl": "2.28.9", "driver": "580.65.06",
    "kernel": "6.8.0", "distcheck": "0.1.0",
}  # fmt: skip
SETTINGS: Mapping[str, str] = {"NCCL_SOCKET_IFNAME": "=eth0", "NCCL_IB_HCA": "mlx5", "NCCL_DEBUG": "WARN"}


def gpu(host: int, index: int, name: str = "NVIDIA H100 80GB HBM3") -> Device:
    """One GPU; UUIDs are unique, PCI addresses are the same on all hosts."""
    return Device(f"GPU-{host:08x}-{index:04x}", f"0000:{index + 1:02x}:00.0", name, 80 * GIB, "9.0")


def host(
    number: int, ranks: int = 8, *, first: int | None = None, world: int | None = None, **changes: Any
) -> HostRecord:
    """A host of eight H100s with its ranks, numbered node by node."""
    start = number * ranks if first is None else first
    gpus = tuple(gpu(number, index) for index in range(ranks))
    record = HostRecord(
        f"gpu{number + 1:02}",
        tuple(RankRecord(start + i, i, world, ranks, number, 1000 + i, gpus[i]) for i in range(ranks)),
        boot_id=f"b00t{number:08x}",
        namespaces={"ipc": "4026531839", "mnt": "4026531832", "net": "4026531833", "uts": "4026531838", "shm": "0:25"},
        versions=VERSIONS,
        settings=SETTINGS,
        gpus=gpus,
        interfaces=(
            HostInterface(
                "eth0", (f"10.{number // 65536}.{number // 256 % 256}.{number % 256}/8",), "ethernet", True, 9000,
                100000, nccl=True, gloo=True, default_route=True,
            ),
        ),
        rdma_ports=tuple(HostRdmaPort(f"mlx5_{i}", 1, "ACTIVE", "InfiniBand", 400.0) for i in range(ranks)),
        backends=("gloo", "nccl"),
        clock=ClockOffset(0.001 * (number % 5), 0.01),
        code=Code("/scratch/job", COMMIT, "main"),
    )  # fmt: skip
    return record._replace(**changes)


def cluster(
    hosts: int = 4, ranks: int = 8, *, spoil: Mapping[int, Callable[[HostRecord], HostRecord]] = {}, **changes: Any
) -> Cluster:
    """A launch on equal hosts.

    :param spoil: a function for each host, by its number, that makes of it what a test needs
    """
    world = hosts * ranks
    everyone = [host(number, ranks, world=world) for number in range(hosts)]
    for number, change in spoil.items():
        everyone[number] = change(everyone[number])
    return Cluster(tuple(everyone), "nccl", world)._replace(**changes)


def with_versions(**versions: str | None) -> Callable[[HostRecord], HostRecord]:
    """A host with other versions; None takes one away."""

    def change(record: HostRecord) -> HostRecord:
        found = {**record.versions, **versions}
        return record._replace(versions={name: value for name, value in found.items() if value is not None})

    return change


def with_settings(**settings: str) -> Callable[[HostRecord], HostRecord]:
    """A host with more settings."""
    return lambda record: record._replace(settings={**record.settings, **settings})


def with_ranks(change: Callable[[RankRecord], RankRecord]) -> Callable[[HostRecord], HostRecord]:
    """A host whose ranks are changed, one by one."""
    return lambda record: record._replace(ranks=tuple(change(rank) for rank in record.ranks))


def whole_roll(size: int = 32, **changes: Any) -> Roll:
    """A roll to which all came."""
    return Roll(size, size, timeout_s=60.0)._replace(**changes)


def report(given: Cluster, roll: Roll | None = None, reach: Reach | None = None) -> Report:
    """All probes that compare."""
    return judge(given, roll, reach, plug_ins=False)


def loud(findings: Report) -> list[Finding]:
    """What speaks above info."""
    return list(findings.at_least(Severity.WARNING))
