"""Judges the records of all hosts together: a closed run of the probes that compare.

It is apart from the probes, so that importing one room brings neither the checker nor the others.
"""

from __future__ import annotations

from distcheck.core.checker import Checker
from distcheck.core.model import NotApplicable, Report, Unavailable
from distcheck.rules import Selection

from .records import Cluster, Reach, Roll

#: The modules whose probes compare ranks and hosts.
PROBE_MODULES = (
    "distcheck.checks.cluster.identity",
    "distcheck.checks.cluster.consistency",
    "distcheck.checks.cluster.hardware",
    "distcheck.checks.cluster.network",
    "distcheck.checks.cluster.closed_ports",
    "distcheck.checks.cluster.rdma",
)

#: Rules of which both a host by itself and the comparison of all may speak. Where the comparison has found one, the
#: hosts' own findings of it are the same error again.
ALSO_SEEN_BY_HOSTS = frozenset({"DC120", "DC310"})


def judge(
    cluster: Cluster | Unavailable,
    roll: Roll | Unavailable | None = None,
    reach: Reach | Unavailable | None = None,
    *,
    selection: Selection | None = None,
    command: str = "collective",
    plug_ins: bool = True,
) -> Report:
    """What is wrong with these hosts and ranks as a whole.

    :param roll: None: no membership check was made, so that no host can be missing
    :param reach: None: no connection was tried, and none was planned
    :param command: the name of the command that the report is of
    """
    facts: dict[type, object] = {
        Cluster: cluster,
        Roll: NotApplicable("no roll was called") if roll is None else roll,
        Reach: NotApplicable("no connections were tried") if reach is None else reach,
    }
    checker = Checker(selection, modules=PROBE_MODULES, plug_ins=plug_ins)
    return checker.plan(*facts, command=command, closed=True).run(facts=facts)
