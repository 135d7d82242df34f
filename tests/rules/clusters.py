"""What the examples of the pages about several hosts show, as made hosts: which text of a block means what of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from distcheck.checks.cluster.records import Caller, ClockOffset, Cluster, Code, HostRecord, Reach, Roll
from distcheck.core.model import Finding
from tests.checks.cluster.synthetic import cluster, report, whole_roll, with_ranks, with_settings, with_versions
from tests.checks.cluster.test_network import block, contained, reach, to


class Sight(NamedTuple):
    """Some hosts that are well, or no longer."""

    hosts: Cluster
    roll: Roll
    reach: Reach | None = None


def _one(number: int, change: Callable[[HostRecord], HostRecord]) -> Callable[[Sight], Sight]:
    """One host is spoiled."""

    def spoil(sight: Sight) -> Sight:
        hosts = list(sight.hosts.hosts)
        hosts[number] = change(hosts[number])
        return sight._replace(hosts=sight.hosts._replace(hosts=tuple(hosts)))

    return spoil


def _all(change: Callable[[HostRecord], HostRecord]) -> Callable[[Sight], Sight]:
    """All hosts are changed."""
    return lambda sight: sight._replace(
        hosts=sight.hosts._replace(hosts=tuple(change(record) for record in sight.hosts.hosts))
    )


def _nobody(sight: Sight) -> Sight:
    """The second host has not come."""
    ranks = tuple(range(8, sight.roll.world_size))
    return sight._replace(roll=sight.roll._replace(present=8, missing=ranks, expected=dict.fromkeys(ranks, "gpu02")))


def _twice(sight: Sight) -> Sight:
    """Both hosts believe to be the first."""
    surplus = tuple(Caller(rank, "gpu02", 4711 + rank, 16) for rank in range(8))
    return sight._replace(roll=sight.roll._replace(present=8, missing=tuple(range(8, 16)), surplus=surplus))


def _dealt_out(record: HostRecord) -> HostRecord:
    number = record.ranks[0].node_rank or 0
    return with_ranks(lambda rank: rank._replace(rank=(rank.local_rank or 0) * 2 + number))(record)


def _one_machine(sight: Sight) -> Sight:
    """Two containers of one machine, called the same, each with a /dev/shm of its own."""
    first, second = sight.hosts.hosts
    second = second._replace(host=first.host, boot_id=first.boot_id, namespaces={**first.namespaces, "shm": "0:77"})
    return sight._replace(hosts=sight.hosts._replace(hosts=(first, second)))


def _one_machine_shared(sight: Sight) -> Sight:
    """The same with two names, and what is shared shared."""
    first, second = sight.hosts.hosts
    second = second._replace(boot_id=first.boot_id, namespaces=first.namespaces)
    return sight._replace(hosts=sight.hosts._replace(hosts=(first, second)))


def _contained(sight: Sight) -> Sight:
    """Each in a network of its own, behind Docker's bridge."""
    refused = reach(2, block((0, 1), (1, 0), outcome="refused"))
    return sight._replace(hosts=cluster(2, spoil=contained(0, 1)), reach=refused)


def _mtu(record: HostRecord) -> HostRecord:
    return record._replace(interfaces=tuple(one._replace(mtu_bytes=1500) for one in record.interfaces))


#: Code → what texts of its blocks mean; a text of a good example that changes nothing is not named.
MEANINGS: Mapping[str, Mapping[str, Callable[[Sight], Sight]]] = {
    "DC410": {"9000\n1500\n9000": _one(1, _mtu)},
    "DC411": {"-p 29500:29500": _contained},
    "DC412": {"only the master's port": lambda sight: sight._replace(reach=reach(2, block(*to(1, 2))))},
    "DC501": {"and nothing on gpu02": _nobody},
    "DC502": {"--node-rank=0": _twice},
    "DC503": {"gpu02 2.5.1": _one(1, with_versions(torch="2.5.1"))},
    "DC504": {"only gpu01 has it": _one(0, with_settings(NCCL_ALGO="Ring")), "-x NCCL_ALGO=Ring": _all(with_settings(NCCL_ALGO="Ring"))},
    "DC505": {"12:00:42": _one(1, lambda record: record._replace(clock=ClockOffset(42.0, 0.01)))},
    "DC506": {"# twice on one machine": _one_machine, "--hostname=worker-b --ipc=host": _one_machine_shared},
    "DC507": {"gpu02: 9f8e7d6": _one(1, lambda record: record._replace(code=Code("/scratch/job", "9f8e7d6" + "0" * 33, "main")))},
    "DC508": {"--distribution=cyclic": _all(_dealt_out)},
}  # fmt: skip


def compared(code: str, text: str) -> list[Finding]:
    """What the probes that compare hosts say of what a block shows."""
    number = 3 if code == "DC410" else 2
    sight = Sight(cluster(number), whole_roll(8 * number), reach(number))
    for part, meaning in MEANINGS[code].items():
        if part in text:
            sight = meaning(sight)
    return list(report(sight.hosts, sight.roll, sight.reach).findings)
