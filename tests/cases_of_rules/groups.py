"""A live group: what the phases of the smoke test found, given to the function that makes its report.

``distcheck collective`` has no other input than ranks that run.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from distcheck.checks.cluster.records import Cluster, HostRecord
from distcheck.checks.logs.nccl_info import Transport, parse_log
from distcheck.core.model import NotApplicable, Report
from distcheck.runtime.coordination.rank_info import RankInfo
from distcheck.runtime.smoke_test.backend import choose
from distcheck.runtime.smoke_test.correctness import PEER_COPY
from distcheck.runtime.smoke_test.driver import PhaseResults
from distcheck.runtime.smoke_test.model import Lateness, Options
from distcheck.runtime.smoke_test.run import HostResult, Request, report_of
from tests.checks.logs.test_nccl_info import INFINIBAND, SOCKET
from tests.runtime.smoke_test import test_nccl_log
from tests.runtime.smoke_test.test_backend import BROKEN, GOOD, GpuAccess, GpuState, host
from tests.runtime.smoke_test.test_bandwidth_checks import row
from tests.runtime.smoke_test.test_bandwidth_checks import run as measured
from tests.runtime.smoke_test.test_correctness_checks import proof_of, wrong
from tests.runtime.smoke_test.test_failures import DETAIL, failure, state
from tests.runtime.smoke_test.test_straggler_checks import cluster_of, computing, measure, on_time

from . import Case, Cases, Said, said_by

HOSTS = [rank // 4 for rank in range(8)]


def reported(
    cluster: Cluster,
    *,
    options: Options = Options(),
    transport: Transport | NotApplicable = NotApplicable("no group was made"),
    **found: Any,
) -> Report:
    """The report of ``distcheck collective`` on what its phases found."""
    inspected = HostResult(Report("env", subject={"host": "gpu01", "line": []}), HostRecord("gpu01"))
    rank_infos = (RankInfo(0, sum(len(host.ranks) for host in cluster.hosts), 0, 8, 0),)
    found.setdefault("choice", choose(options, cluster.hosts))
    return report_of(
        PhaseResults(cluster=cluster, **found), inspected, Request(options=options), rank_infos, 1.0, transport
    )


def late(*, slow: float) -> Lateness:
    """Rank 2 computes so many times as long as the others."""
    own = computing(8)
    own[2] *= slow
    return Lateness(tuple(on_time(8)), tuple(own), 14)


def links(*, slow: float) -> Any:
    """Ranks 0 and 5 are so many times as slow with each other."""
    return measure(HOSTS, 0.05, 1, backend="nccl", slower=lambda a, b: slow if (a, b) == (0, 5) else 1.0)


FAST = {"measured": measured(row(380.0)), "options": Options(min_busbw_gbytes_per_s=300.0)}
WAITS = failure("timeout", (3,), state(3, "stopped"))
DIED = failure("died", (3,), state(3, "killed", detail="it was killed by SIGKILL"), error="it was killed by SIGKILL")
#: What was found where the rule is broken, and where it is not.
FOUND: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "DC120": (
        {"cluster": Cluster((host("gpu01", GOOD, backends=("gloo",)),))},
        {"cluster": Cluster((host("gpu01", GpuAccess(GpuState.ABSENT), backends=("gloo",)),))},
    ),
    "DC315": ({"cluster": Cluster((host("gpu01", BROKEN),))}, {"cluster": Cluster((host("gpu01", GOOD),))}),
    "DC336": ({"proof": proof_of(wrong(5, PEER_COPY))}, {"proof": proof_of(wrong(5))}),
    "DC510": ({"proof": proof_of(wrong(5))}, {"proof": proof_of()}),
    "DC511": ({"failure": WAITS}, {"failure": DIED}),
    "DC512": ({"failure": DIED}, {"failure": WAITS}),
    "DC513": ({**FAST, "options": Options(min_busbw_gbytes_per_s=400.0)}, FAST),
    "DC514": ({"lateness": late(slow=4.0), **FAST}, {"lateness": late(slow=1.0), **FAST}),
    "DC515": ({"pairs": links(slow=9.0)}, {"pairs": links(slow=1.0)}),
    "DC516": (
        {"cluster": test_nccl_log.two(test_nccl_log.PORT), "transport": parse_log(SOCKET)},
        {"cluster": test_nccl_log.two(test_nccl_log.PORT), "transport": parse_log(INFINIBAND)},
    ),
    "DC517": ({"failure": failure("raised", (0, 1), error=DETAIL)}, {"failure": DIED}),
}


def of_groups(code: str) -> Cases:
    """A group in which the rule is broken, and one in which it is not."""

    def said(given: dict[str, Any], _: Path) -> Said:
        return said_by(reported(**{"cluster": cluster_of(HOSTS, "nccl"), **given}))

    bad, good = FOUND[code]
    return Cases([Case(code, partial(said, bad))], [Case(f"not {code}", partial(said, good))])
