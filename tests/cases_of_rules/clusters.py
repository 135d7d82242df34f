"""Hosts and ranks side by side: ``distcheck env --merge FILE…`` on records of hosts, one of them changed.

What the smoke test learns before a group is made, the membership and the connections between hosts, goes to the
functions that make its report.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from distcheck.checks.cluster import record_exchange
from distcheck.checks.cluster.membership_protocol import MembershipAnswer, MembershipProblem
from distcheck.checks.cluster.merge import HostReport
from distcheck.checks.cluster.records import Caller, Cluster, Reach, Roll
from distcheck.core.model import Report
from distcheck.runtime.smoke_test.multi_host import HostPlan, report_of_hosts
from distcheck.runtime.smoke_test.run import Request
from tests.checks.cluster.synthetic import cluster, whole_roll, with_ranks, with_settings, with_versions
from tests.checks.cluster.test_consistency import at, cpu_build
from tests.checks.cluster.test_hardware import all_on, hot, with_gpus
from tests.checks.cluster.test_identity import clocks, dealt_out, missing
from tests.checks.cluster.test_network import block, cards, carrier, contained, on, plugged, reach, to, with_ports

from . import Case, Cases, Said, run, said_by
from .groups import reported


def merged(given: Cluster, folder: Path) -> Said:
    """``distcheck env --merge`` on a record of each host."""
    paths = []
    for number, record in enumerate(given.hosts):
        host = HostReport(
            record.host,
            Report("env", stage="rank", subject={"host": record.host, "line": [record.host]}),
            record,
            backend=given.backend,
            rendezvous=given.rendezvous,
            world_size=given.world_size,
        )
        path = folder / f"{number}.json"
        path.write_text(record_exchange.to_text(host) + "\n", encoding="utf-8")
        paths.append(str(path))
    return run(folder, "env", "--isolated", "--merge", *paths)


def met(roll: Roll | None, tried: Reach | None, _: Path) -> Said:
    """The smoke test after its membership check and its connections."""
    return said_by(reported(cluster=cluster(4), roll=roll, reach=tried))


def called(answer: MembershipAnswer, _: Path) -> Said:
    """``distcheck collective --nnodes 2`` on a host that did not find the first one."""
    plan = HostPlan(2, 8, 1, "10.0.0.1", 29500, 29501, "static")
    report = report_of_hosts(answer, Report("env", subject={"host": "gpu02", "line": []}), plan, Request())
    assert report is not None
    return said_by(report)


#: Records of hosts in which the rule is broken.
BROKEN: dict[str, Callable[[], Cluster]] = {
    "DC103": lambda: cluster(4, spoil={1: with_ranks(lambda rank: rank._replace(local_rank=0, device=None))}),
    "DC120": lambda: cluster(spoil={2: cpu_build}),
    "DC303": lambda: cluster(2, spoil={1: all_on(1)}),
    "DC308": lambda: cluster(spoil={2: with_gpus("NVIDIA A100-SXM4-80GB")}),
    "DC310": lambda: cluster(spoil={1: hot(0), 3: hot(2, 3, reason="hw-power-brake")}),
    "DC334": lambda: cluster(6, spoil={1: plugged("libnccl-net.so")}),
    "DC406": lambda: cluster(3, spoil={n: on(carrier("usb0", "169.254.3.1/24", 1500)) for n in range(3)}),
    "DC410": lambda: cluster(4, spoil={2: on(carrier("eth0", "10.0.0.2/8", 1500))}),
    "DC411": lambda: cluster(2, spoil=contained(0, 1)),
    "DC413": lambda: cluster(4, spoil={1: with_ports()}),
    "DC414": lambda: cluster(4, spoil={2: with_ports(*cards(7), *cards(8, rate=200.0)[7:])}),
    "DC503": lambda: cluster(spoil={2: with_versions(torch="2.5.1")}),
    "DC504": lambda: cluster(spoil={3: with_settings(NCCL_ALGO="Ring")}),
    "DC505": lambda: clocks(0, 0, -40, 0),
    "DC506": lambda: cluster(4, spoil={number: with_settings(NCCL_HOSTID="node") for number in range(4)}),
    "DC507": lambda: cluster(spoil={1: at("f" * 40)}),  # type: ignore[dict-item]
    "DC508": lambda: cluster(4, spoil=dict.fromkeys(range(4), dealt_out)),
}
#: What the smoke test learns of the ranks and of the connections between hosts.
MET: dict[str, tuple[Roll | None, Reach | None]] = {
    "DC412": (whole_roll(), reach(4, block(*to(1, 4)))),
    "DC501": (missing(3, 7, size=32), None),
    "DC502": (whole_roll(surplus=(Caller(3, "gpu07", 4711, 32),)), None),
}
UNREACHED = MembershipAnswer(
    None, problems=(MembershipProblem("timeout", "10.0.0.1", 29501),), host="gpu02", node_rank=1
)
REFUSED = MembershipAnswer(None, problems=(MembershipProblem("refused", "10.0.0.1", 29501),), host="gpu02", node_rank=1)


def of_clusters(code: str) -> Cases:
    """Hosts of which one breaks the rule, and equal ones."""
    if code == "DC403":
        return Cases([Case("no answer", partial(called, UNREACHED))], [Case("no process", partial(called, REFUSED))])
    if code in MET:
        healthy = Case("all are here", partial(met, whole_roll(), reach(4)))
        return Cases([Case(code, partial(met, *MET[code]))], [healthy])
    return Cases([Case(code, partial(merged, BROKEN[code]()))], [Case("equal hosts", partial(merged, cluster()))])
